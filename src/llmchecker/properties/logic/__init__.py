"""PCTL and LTL: syntax tree, parser, monitors, joint truth values of atoms."""
