"""The frame around a page: one file for a report, addresses for a server."""

import json
import math
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.pages.document import as_json, document
from holdfast_cli.pages.page import Chart, Curve, Fragment, Page
from holdfast_model.pages.template import Markup

CHART = Chart("loss", "Loss", "step", "loss", [Curve("attempt 1", [1, 2.5], [0.123456789, None], lost=True)])
PAGE = Page("a & b", [Fragment("heading", Markup("<h1>a &amp; b</h1>")), Fragment("more", Markup("<p>x</p>"))], [CHART])
JSON = re.compile(r'<script type="application/json" id="charts">(.*?)</script>', re.DOTALL)


class Scripts(HTMLParser):
    """What a browser takes for scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.sources.append(dict(attrs).get("src"))


def test_a_report_contains_all_that_it_needs() -> None:
    text = document(PAGE, live=False)
    assert text.startswith("<!DOCTYPE html>")
    assert "<title>a &amp; b</title>" in text
    assert '<section id="heading"><h1>a &amp; b</h1></section><section id="more">' in text
    assert "--curve-0" in text
    assert "uPlot (v1.6.32)" in text
    assert "window.holdfast" in text
    assert not re.search(r"\b(src|href)=", JSON.sub("", text).split("<body>")[0])
    assert Scripts(text).sources == [None, None, None]


# Breaks if a live page forbids what it needs by its own rule, or if the names change that `ui` serves.
def test_a_live_page_names_its_files() -> None:
    text = document(PAGE, live=True)
    assert '<link rel="stylesheet" href="/page.css">' in text
    assert Scripts(text).sources == [None, "/uplot.js", "/page.js", "/live.js"]
    assert "<style" not in text
    assert "Content-Security-Policy" not in text


def test_charts_as_a_script_reads_them() -> None:
    found = JSON.search(document(PAGE, live=True))
    assert found
    curve = {"label": "attempt 1", "lost": True, "x": [1, 2.5], "y": [0.12346, None]}
    assert json.loads(found[1]) == [
        {"id": "loss", "title": "Loss", "xLabel": "step", "yLabel": "loss", "fromZero": False, "curves": [curve]}
    ]


# Breaks if a value that no axis can show stops the whole chart, or is not JSON.
def test_values_that_cannot_be_drawn_are_gaps() -> None:
    curve = Curve("a", range(6), [math.nan, math.inf, -math.inf, 1e300, 3.0, 1e-9])
    [chart] = json.loads(as_json([Chart("c", "C", "step", "", [curve])]))
    assert chart["curves"][0]["y"] == [None, None, None, None, 3, 1e-9]


# Breaks if a name can end the script, or begin an element.
@given(st.text() | st.sampled_from(["</script><script>alert(1)</script>", "<!--<script>", "]]>", "\u2028"]))
def test_no_text_ends_the_block_of_charts(text: str) -> None:
    page = Page(text, [], [Chart("c", text, "step", text, [Curve(text, [1], [2])])])
    whole = document(page, live=True)
    assert len(Scripts(whole).sources) == 4
    found = JSON.search(whole)
    assert found
    assert json.loads(found[1])[0]["title"] == text
