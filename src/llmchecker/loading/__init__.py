"""How a directory becomes a model that can be asked: loaded, checked and measured."""
