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
from holdfast_model.pages import fragments as pieces

ANY = st.text() | st.sampled_from(["<b>", "</td>", '"', "'", "&amp;", "<!--", "]]>", "</script>"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a < b", "a &lt; b"),
        (Text("up", style="green"), '<span class="t-green">up</span>'),
        (Text.assemble("a ", ("b", "bold red"), " c"), 'a <span class="t-bold t-red">b</span> c'),
        (Text.assemble(("a", "dim"), style="red"), '<span class="t-dim t-red">a</span>'),
        (Text("x", style="underline"), "x"),
        (Text(""), ""),
    ],
)  # fmt: skip
def test_styles_of_the_terminal_are_classes(text: str | Text, wanted: str) -> None:
    assert fragments.html(text) == wanted


# Breaks if one of the pieces lets a text through as HTML: then a name is an element, or the page is no tree any more.
@given(ANY, ANY)
def test_every_text_stays_a_text(one: str, other: str) -> None:
    styled = Text.assemble((one, "red"), other)
    made = [
        (fragments.html(styled), {"span"}),
        (fragments.pill(styled), {"span"}),
        (fragments.paragraphs(Group(Text(one), Text(other))), {"p"}),
        (fragments.section(one, "<p>x</p>"), {"h2", "p"}),
        (fragments.pairs([(one, styled)]), {"dl", "dt", "dd", "span"}),
        (fragments.figures([Figure(one, styled, other)]), {"dl", "div", "dt", "dd", "span", "small"}),
        (fragments.simple_table([Column(one)], [[other]]), {"div", "table", "thead", "tbody", "tr", "th", "td"}),
        (fragments.block(one, 10), {"pre"}),
        (pieces.folded(one, pieces.note(other)), {"details", "summary", "p"}),
    ]
    for html, allowed in made:
        found = Read(html)
        assert found.tags <= allowed
        assert not found.breaches()


def test_a_table_leaves_out_optional_columns_that_say_nothing() -> None:
    columns = [Column("NAME"), Column("HOUR OF\nWORK", right=True), Column("NOTE", rank=1), Column("ALWAYS")]
    long = "x" * 60
    rows = [[Text(cell) for cell in cells] for cells in (("a", "1", "-", "-"), (long, "2", "", ""))]
    html = fragments.table(Fitting(columns, rows))
    assert Read(html).texts == ["NAME", "HOUR OF WORK", "ALWAYS", "a", "1", "-", long, "2"]
    assert '<td class="right">1</td>' in html
    assert f'<td class="wide">{long}</td>' in html
    assert fragments.table(Fitting(columns, [])) == ""


def test_a_long_text_says_how_much_was_cut() -> None:
    assert fragments.block("x" * 1500, 400) == f"<pre>{'x' * 400}\n... and 1,100 characters more</pre>"
    assert fragments.block("x", 400) == "<pre>x</pre>"


# Breaks if a page has headings of sections that say nothing.
def test_a_section_without_content_is_empty() -> None:
    assert fragments.section("Events", "", "") == ""
    assert fragments.section("Events", fragments.pairs([])) == ""
