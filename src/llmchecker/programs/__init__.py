"""C programs: expressions, statements, how they are read and how they run."""
