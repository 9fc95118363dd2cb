"""The paper's published Table II: its rows, the audit of their sizes, and the comparison."""
