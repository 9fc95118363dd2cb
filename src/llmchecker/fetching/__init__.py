"""Fetching models, data sets and programs into local files: checksummed, whole or absent."""
