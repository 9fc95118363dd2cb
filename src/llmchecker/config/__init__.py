"""The configuration of a run, validated as a whole before the first job."""
