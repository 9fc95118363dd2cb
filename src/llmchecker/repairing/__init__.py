"""Repair by counterexample: a proposer is told what failed, and asked again.

Each answer is parsed and proven as any other proposal.
"""
