"""Frontend: from C text to the intermediate representation."""
