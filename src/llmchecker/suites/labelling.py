"""Labels that a person gives texts of a CSV file, in random order."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.properties.quantifiers.judge import Judge
from llmchecker.suites.judge_check import LABEL, LabelledText, parse_label
from llmchecker.suites.templates import normalize_name
from llmchecker.suites.true_rate import draw_order
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.csv_rows import parse_csv
from llmchecker.utils.text_files import read_text


def ask_for_labels(
    path: Path,
    judge: Judge,
    texts: Sequence[LabelledText],
    ask: Callable[[LabelledText, int], str | None],
    refuse: Callable[[str], None],
) -> None:
    """Ask a person for the missing labels of texts in random order, and write each into the file.

    Args:
        path: the CSV file; the column `label` is added if it is absent.
        judge: the judge, whose grades are labels.
        texts: the texts of the file.
        ask: asks for the label of a text, with the number of texts without one; None ends.
        refuse: receives the message about an answer that is no label.

    Raises:
        ConfigError: the file is no CSV file.
    """
    if path.suffix.lower() != ".csv":
        raise ConfigError(f"--label: {path.name} is no CSV file; write the texts as one")
    missing = [index for index in draw_order(len(texts)) if texts[index].label is None]
    for position, index in enumerate(missing):
        label: int | None = None
        while label is None:
            if (answer := ask(texts[index], len(missing) - position)) is None:
                return
            try:
                label = parse_label(texts[index].place, answer, judge)
            except ConfigError as error:
                refuse(str(error))
        _write_label(path, index, str(label))


def _write_label(path: Path, index: int, label: str) -> None:
    """Write the label of a text into its file, and add the column if it is absent."""
    rows = parse_csv(path.name, read_text(path, path.name, error_type=UnusableDataset))
    header, *cells = ([*row.cells] for row in rows)
    names = [normalize_name(name) for name in header]
    if LABEL not in names:
        names.append(LABEL)
        header.append(LABEL)
        for row in cells:
            row.append("")
    cells[index][names.index(LABEL)] = label
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *cells])
    with atomic_write(path) as unfinished:
        unfinished.write_text(text.getvalue(), encoding="utf-8")
