"""Models, data sets and programs become local files: checksummed, whole or absent."""
