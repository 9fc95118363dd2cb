"""Texts as Markdown: readable without marks, and inert with them."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from llmchecker.utils.markdown_text import format_block, format_cell, format_code, format_text
from llmchecker.utils.printable_text import escape_unprintable


@pytest.mark.parametrize(
    "text",
    [
        "max_words of a_b_c: 8, at least 0.95",
        'contains "Madrid", at 12:30 (within 6 tokens; 0.00 of the answers)',
        "probability [0.07858, 0.806] with confidence 0.99",
        "SmolLM2-135M 100 % it's no! really?",
        "gender > 0 & step <= 5",
        "./model/smollm2-135m",
        "naïve 日本語 −∞",
    ],
)
def test_a_text_without_marks_stays_as_it_is(text):
    """Ordinary punctuation, intervals and names have no escapes."""
    assert format_text(text) == format_cell(text) == text


@pytest.mark.parametrize(
    "text",
    (
        "_a_|*a*|[a](b)|![a](b)|[a]|[1][2]|[1]: x|[^1]|&lt;|<b>|~a~|# a|#12|a#1|@team|a@b.c|:tada:|"
        "http://e.org|www.e.org|WWW.e.org|GH-12|- a|+ a|1. a|1) a|> a|`a`|$a$|===|---|\\*|<!-- b"
    ).split("|"),
)
def test_a_text_with_a_mark_is_code(text):
    """Whatever GitHub would obey is within a fence of backticks."""
    shown = format_text(text)
    assert re.fullmatch(r"(`+) ?(.*?) ?\1", shown, re.DOTALL)
    assert text.strip() in shown


PARTS = st.sampled_from(
    [*"\\`*_{}[]()<>#|$~&!:;^=+-.@/ a1x\n", "&lt;", "](", "[^", "#1", "~~", "www.", "http://", "``"]
)
MARKED = st.lists(PARTS).map("".join)


def read(source: str) -> tuple[str, str]:
    """Return the text that a reader shows, and the part of it that is no code."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source)
    assert {each.type.partition("_")[0] for each in tokens} <= set(
        "paragraph inline table thead tbody tr th td".split()
    )
    inline = [child for each in tokens for child in each.children or ()]
    assert {child.type for child in inline} <= {"text", "text_special", "code_inline"}
    plain = "".join(child.content for child in inline if child.type != "code_inline")
    return "".join(child.content for child in inline), plain


def has_reference(plain: str) -> bool:
    """Return whether GitHub finds an address, a mention, a reference or an emoji in a text."""
    return re.search(r"[@#]\w|\w@|://|www\.|:[\w+-]+:|[<~$]\w", plain) is not None


@given(MARKED)
def test_a_reader_gives_back_the_text(text):
    """A reader of a paragraph, also one of nothing else, shows the text without any markup."""
    shown, plain = read(f"x {format_text(text)} x")
    assert shown == f"x {escape_unprintable(text)} x"
    assert not has_reference(plain)
    alone, _ = read(format_text(text).strip())
    assert alone.strip() == escape_unprintable(text).strip()


@given(st.lists(MARKED, min_size=1, max_size=3))
def test_a_cell_gives_back_its_text(texts):
    """A row has one cell for each text, also where bars follow backslashes."""
    cells = [format_cell(text) for text in texts]
    rows = ["|" + mark * len(texts) for mark in (" h |", " - |")]
    source = "\n".join([*rows, f"| {' | '.join(cells)} |"])
    page = MarkdownIt("commonmark").enable("table").render(source)
    found = re.findall(r"<td>(.*?)</td>", page, re.DOTALL)
    assert len(found) == len(texts)
    for cell, text in zip(found, texts, strict=True):
        shown = cell.removeprefix("<code>").removesuffix("</code>")
        assert html.unescape(shown).strip() == escape_unprintable(text).strip()


@given(st.lists(MARKED))
def test_a_block_is_one_block_of_code(lines):
    """No line of a block ends it, and each is shown as it is."""
    (token,) = MarkdownIt("commonmark").parse(format_block(lines))
    assert token.type == "fence"
    assert token.content == "".join(f"{escape_unprintable(line)}\n" for line in lines)


def test_spaces_at_the_ends_of_code_stay():
    """A reader removes a space at both ends, so that two more are written."""
    for text in (" He", "He ", " He ", "  ", "`", "a`", ""):
        tokens = MarkdownIt("commonmark").parseInline(f"x{format_code(text)}x")[0].children
        assert "".join(token.content for token in tokens or ()) == f"x{text}x"
