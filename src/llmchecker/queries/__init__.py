"""What is asked: formulas of PCTL and LTL over quantifiers, and how they are read."""
