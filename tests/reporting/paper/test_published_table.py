"""The published table, read as it is printed or refused."""

from pathlib import Path

import pytest

from llmchecker.errors import InvalidTable
from llmchecker.reporting.paper.published_table import read_published_rows

TABLE2 = Path(__file__).parents[3] / "resources/published/table2.csv"
HEADER = (
    "label,interest,model,alpha,k,L,query,states,transitions,encode_seconds,check_seconds,result"
)
ROW = "Player,Gender,BERT,0.8,15,5,P=? [ F gender > 0 ],11,16,2,0.03,0.0000"


def test_the_published_table_is_read_as_it_is_printed():
    """All 23 rows are read, in their order, with every digit of the file."""
    rows = read_published_rows(TABLE2)
    assert [r.number for r in rows] == list(range(1, 24))
    asked = [(r.truncation.alpha, r.truncation.k, r.truncation.length, r.query) for r in rows]
    found = [(r.states, r.transitions, r.encode_seconds, r.check_seconds, r.value) for r in rows]
    printed = [
        (r.label, r.interest, r.model, *a, *f) for r, a, f in zip(rows, asked, found, strict=True)
    ]
    lines = [HEADER, *(",".join(map(str, cells)) for cells in printed)]
    assert lines == TABLE2.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the columns are ; expected label, interest"),
        (
            HEADER.replace("result", "value"),
            "the columns are label, .*, value; expected .*, result",
        ),
        (f"{HEADER}\n{ROW}\nPlayer,Gender", "line 3: row: not 12 cells"),
        (f"{HEADER}\n{ROW},1", "line 2: row: not 12 cells"),
        (f"{HEADER}\n{ROW.replace('0.8', '1.8')}", "line 2: alpha: 1.8"),
        (f"{HEADER}\n{ROW.replace('F gender', 'F F')}", "line 2: column 15 of the query"),
        (f"{HEADER}\n{ROW.replace(',11,', ',11.5,')}", "line 2: .*'11.5'"),
        (f"{HEADER}\n{ROW.replace(',11,', ',0,')}", "line 2: states: 0 is not at least 1"),
        (f"{HEADER}\n{ROW.replace(',16,', ',-1,')}", "line 2: transitions: -1"),
        (
            f"{HEADER}\n{ROW.replace('0.03', 'nan')}",
            "line 2: cell: 'nan' is not a decimal number",
        ),
        (f"{HEADER}\n{ROW.replace('0.03', '-0.03')}", "line 2: check_seconds: -0.03 is not"),
        (f"{HEADER}\n{ROW.replace('0.0000', '1.01')}", "line 2: result: 1.01 is not a prob"),
    ],
)
def test_a_table_that_cannot_be_is_not_read(content, message, tmp_path):
    """A wrong column or cell is an error that names the file, the line and the value."""
    path = tmp_path / "table2.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidTable, match=f"{path}.*{message}"):
        read_published_rows(path)


def test_a_table_that_was_cut_is_not_read(tmp_path):
    """A table that lost its end is refused by name, also where the last cell is a number still."""
    path = tmp_path / "table2.csv"
    path.write_text(f"{HEADER}\n{ROW.removesuffix('00')}", encoding="utf-8")
    with pytest.raises(InvalidTable, match=f"{path}, line 2: no end of line, so the file was cut"):
        read_published_rows(path)
