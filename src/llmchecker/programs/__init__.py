"""C programs: expressions, statements, and how they run."""
