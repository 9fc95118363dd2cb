"""Properties of texts: quantifiers, their registry, and formulas over them."""
