"""Small pieces of HTML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.text import Text
from tests.support.pages.read_html import Read

from holdfast_cli.pages import fragments
from holdfast_cli.pages.fragments import Figure
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_model.pages.template import Template

PIECES, SHARED = Template("holdfast_cli.pages.fragments"), Template("holdfast_model.pages.fragments")
TABLE = {"div", "table", "thead", "tbody", "tr", "th", "td"}
ANY = st.text() | st.sampled_from(["<b>", "</td>", '"', "'", "&amp;", "<!--", "]]>", "</script>"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a < b", "a < b"),
        (Text("up", style="green"), '<span class="t-green">up</span>'),
        (Text.assemble("a ", ("b", "bold red"), " c"), 'a <span class="t-bold t-red">b</span> c'),
        (Text.assemble(("a", "dim"), style="red"), '<span class="t-dim t-red">a</span>'),
        (Text("x", style="underline"), "x"),
        (Text(""), ""),
    ],
)  # fmt: skip
def test_styles_of_the_terminal_are_classes(text: str | Text, wanted: str) -> None:
    assert fragments.styled(text) == wanted


# Breaks if one of the pieces lets a text through as HTML: then a name is an element, or the page is no tree any more.
@given(ANY, ANY)
def test_every_text_stays_a_text(one: str, other: str) -> None:
    text = Text.assemble((one, "red"), other)
    made = [
        (PIECES.paragraphs([fragments.styled(text)]), {"p", "span"}),
        (PIECES.block(one), {"pre"}),
        (fragments.pill(text), {"span"}),
        (SHARED.pairs(fragments.pairs([(one, text)])), {"dl", "dt", "dd", "span"}),
        (SHARED.figures(fragments.figures([Figure(one, text, other)])), {"dl", "div", "dt", "dd", "span", "small"}),
        (SHARED.table(fragments.simple_table([Column(one)], [[other]])), TABLE),
    ]
    for html, allowed in made:
        found = Read(html)
        assert found.tags <= allowed
        assert not found.breaches()


def test_a_table_leaves_out_optional_columns_that_say_nothing() -> None:
    columns = [Column("NAME"), Column("HOUR OF\nWORK", right=True), Column("NOTE", rank=1), Column("ALWAYS")]
    long = "x" * 60
    rows = [[Text(cell) for cell in cells] for cells in (("a", "1", "-", "-"), (long, "2", "", ""))]
    html = SHARED.table(fragments.table(Fitting(columns, rows)))
    assert Read(html).texts == ["NAME", "HOUR OF WORK", "ALWAYS", "a", "1", "-", long, "2"]
    assert '<td class="right">1</td>' in html
    assert f'<td class="wide">{long}</td>' in html
    assert SHARED.table(fragments.table(Fitting(columns, []))) == ""


def test_a_long_text_says_how_much_was_cut() -> None:
    assert fragments.cut("x" * 1500, 400) == f"{'x' * 400}\n... and 1,100 characters more"
    assert fragments.cut("x", 400) == "x"


def test_texts_of_a_group() -> None:
    assert fragments.texts(Group(Text("a", "red"), Text(""), Fitting([], []), "b")) == [
        '<span class="t-red">a</span>', "b",
    ]  # fmt: skip
    assert fragments.texts(None) == []
