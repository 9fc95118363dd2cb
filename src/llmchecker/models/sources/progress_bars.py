"""Progress bars of other packages, which belong to a terminal and not to a log."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limit_progress_bars() -> Iterator[None]:
    """Let tqdm draw progress bars on a terminal only, unless a caller sets `disable`.

    The bar of a file that is no terminal would be a line of the log for each step.
    """
    from tqdm import tqdm

    create = tqdm.__init__
    # with None, tqdm asks the file of the bar whether it is a terminal
    setattr(tqdm, "__init__", functools.partialmethod(create, disable=None))  # noqa: B010
    try:
        yield
    finally:
        setattr(tqdm, "__init__", create)  # noqa: B010
