"""How C text becomes a program, and how a program is written as C again."""
