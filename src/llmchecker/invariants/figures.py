"""The figures of the experiments on programs, drawn from the tables behind them only."""

import pandas as pd
from matplotlib.figure import Figure


def solved_sets(table: pd.DataFrame) -> Figure:
    """Which ways solve the same programs, one panel a semantics.

    Args:
        table: what `tables.solved_sets` returns.
    """
    raise NotImplementedError


def seconds(table: pd.DataFrame) -> Figure:
    """Seconds of a method against those of tools, one panel a semantics.

    Args:
        table: what `tables.seconds` returns.
    """
    raise NotImplementedError
