"""Checks of conversations: answers of a model, with scripted turns of a user between them."""
