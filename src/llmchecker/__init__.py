"""Proofs about what a language model writes: bounded PCTL model checking of text generation."""

__version__ = "0.1.0"
