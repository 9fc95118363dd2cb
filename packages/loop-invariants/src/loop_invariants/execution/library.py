"""Functions of the C library by their contracts; most are C text themselves."""

LIBRARY_TEXT = r"""
unsigned long strlen(const char *s) { unsigned long n = 0; while (s[n]) n++; return n; }
unsigned long strnlen(const char *s, unsigned long m)
{ unsigned long n = 0; while (n < m && s[n]) n++; return n; }
char *strcpy(char *d, const char *s)
{ __distinct(d, s); unsigned long i = 0; while (s[i]) { d[i] = s[i]; i++; } d[i] = 0; return d; }
char *strncpy(char *d, const char *s, unsigned long n)
{ __distinct(d, s); unsigned long i = 0; while (i < n && s[i]) { d[i] = s[i]; i++; }
  while (i < n) { d[i] = 0; i++; } return d; }
char *strcat(char *d, const char *s)
{ __distinct(d, s); unsigned long n = 0, i = 0; while (d[n]) n++;
  while (s[i]) { d[n + i] = s[i]; i++; } d[n + i] = 0; return d; }
char *strncat(char *d, const char *s, unsigned long m)
{ __distinct(d, s); unsigned long n = 0, i = 0; while (d[n]) n++;
  while (i < m && s[i]) { d[n + i] = s[i]; i++; } d[n + i] = 0; return d; }
int strcmp(const char *a, const char *b)
{ unsigned long i = 0; while (a[i] && a[i] == b[i]) i++;
  return __any_of_sign((unsigned char)a[i] - (unsigned char)b[i]); }
int strncmp(const char *a, const char *b, unsigned long n)
{ unsigned long i = 0; while (i < n && a[i] && a[i] == b[i]) i++;
  return i == n ? 0 : __any_of_sign((unsigned char)a[i] - (unsigned char)b[i]); }
int memcmp(const void *p, const void *q, unsigned long n)
{ const unsigned char *a = p, *b = q; unsigned long i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i == n ? 0 : __any_of_sign(a[i] - b[i]); }
char *strchr(const char *s, int c)
{ unsigned long i = 0; while (s[i] != (char)c) { if (!s[i]) return (char *)0; i++; }
  return (char *)(s + i); }
char *strrchr(const char *s, int c)
{ unsigned long i = 0; char *r = (char *)0;
  do { if (s[i] == (char)c) r = (char *)(s + i); } while (s[i++]); return r; }
void *memchr(const void *p, int c, unsigned long n)
{ const unsigned char *a = p; unsigned long i = 0;
  while (i < n) { if (a[i] == (unsigned char)c) return (void *)(a + i); i++; }
  return (void *)0; }
int isdigit(int c) { return c >= '0' && c <= '9' ? __any_nonzero() : 0; }
int islower(int c) { return c >= 'a' && c <= 'z' ? __any_nonzero() : 0; }
int isupper(int c) { return c >= 'A' && c <= 'Z' ? __any_nonzero() : 0; }
int isalpha(int c) { return islower(c) || isupper(c) ? __any_nonzero() : 0; }
int isalnum(int c) { return isalpha(c) || isdigit(c) ? __any_nonzero() : 0; }
int isspace(int c) { return c == ' ' || (c >= 9 && c <= 13) ? __any_nonzero() : 0; }
int tolower(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }
int toupper(int c) { return c >= 'a' && c <= 'z' ? c - 32 : c; }
"""
"""Definitions of functions; `__any_of_sign` gives any number of the sign of its argument,
`__any_nonzero` any number but 0. `__distinct` requires that two addresses share no object."""
