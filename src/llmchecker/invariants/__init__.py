"""Invariants of C programs: proposed by a language model, proven, used instead of unrolling.

The method is that of Pirzada, Bhayat, Cordeiro and Reger, "LLM-Generated Invariants for Bounded
Model Checking Without Loop Unrolling" (ASE 2024).
"""
