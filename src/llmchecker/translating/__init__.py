"""C text until it is a syntax tree: translation phases, macros, headers, jumps."""
