"""The Markov chain of a scored tree, as arrays and in the languages of model checkers."""
