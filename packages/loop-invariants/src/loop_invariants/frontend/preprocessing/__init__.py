"""Preprocessing of C text: translation phases, headers, macros."""
