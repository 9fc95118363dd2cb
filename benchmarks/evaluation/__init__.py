"""The experiments of docs/explanation/evaluation.md: one module a question, one table each."""
