"""Pieces of HTML that several pages have."""

import pytest

from holdfast_model.pages.drawings import bar
from holdfast_model.pages.fragments import size_text, table
from holdfast_model.pages.template import Markup, Template

HTML = Template("holdfast_model.pages.fragments")


# Breaks if a column of numbers is wrapped, if one of long texts is not, or if markup counts as a long text.
def test_the_kinds_of_columns() -> None:
    long = "x" * 41
    found = table(["a", "b", "c", "d"], [["short", long, bar(0.5), long]], left=3, marked=[0])
    assert list(found.kinds) == ["", "wide", "", "right"]
    html = HTML.table(found)
    assert '<th scope="col" class="wide">b</th>' in html
    assert f'<tr class="marked"><td>short</td><td class="wide">{long}</td><td><svg' in html
    assert HTML.table(table(["a"], [])) == Markup()


# Breaks if a small file is said to have 0.00 MB.
@pytest.mark.parametrize(
    ("count", "said"), [(0, "0.0 kB"), (4_404, "4.4 kB"), (1_093_000, "1.09 MB"), (2 * 10**9, "2,000.00 MB")]
)
def test_sizes(count: int, said: str) -> None:
    assert size_text(count) == said
