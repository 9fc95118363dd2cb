"""The tree of what a model may write: how it is grown, stored and recognised again."""
