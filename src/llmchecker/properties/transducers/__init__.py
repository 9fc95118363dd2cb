"""Token transducers: quantifiers that read a text token by token."""
