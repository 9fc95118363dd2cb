"""The Markov chain of a scored tree, as sparse arrays, in PRISM and in JANI."""
