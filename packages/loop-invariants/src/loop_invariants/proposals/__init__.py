"""Proposals of loop invariants by language models.

The method is that of Pirzada, Bhayat, Cordeiro and Reger, "LLM-Generated Invariants for Bounded
Model Checking Without Loop Unrolling" (ASE 2024).
"""
