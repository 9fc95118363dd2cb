"""The workflow's interface: jobs, code digests, input checks, repair."""
