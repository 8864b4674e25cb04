"""Templates: every value is escaped, nothing is missing without an error, and layout is not part of a page."""

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from holdfast_model.pages.template import Markup, Template

BAD = "<b>\"'&"
SOURCE = """{% macro said(text, rows=()) %}
<p class="a"
   id="{{ text }}">
  {{ text }}
  <b>two
     words</b> and
  <pre>{{ text }}</pre>
</p>
{% for one in rows %}
  {{ one.name }}
{% endfor %}
{% endmacro %}
"""


@pytest.fixture
def html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Template:
    """A template in a package of its own: the templates of one package are loaded once."""
    package = f"templates_{abs(hash(request.node.nodeid))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / "page.html").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return Template(f"{package}.page")


# Breaks if the layout of a file changes a page, such as blanks between two elements, or if it changes a value.
def test_a_line_break_of_a_template_is_not_one_of_the_page(html: Template) -> None:
    value = "1\n  2"
    assert html.said(value) == f'<p class="a" id="{value}">{value}<b>two words</b> and<pre>{value}</pre></p>'


def test_every_value_is_escaped_once(html: Template) -> None:
    escaped = "&lt;b&gt;&#34;&#39;&amp;"
    assert f'id="{escaped}">{escaped}<b>' in html.said(BAD)
    assert "<pre><i></pre>" in html.said(Markup("<i>"))
    assert html.said(html.said(BAD)).count(escaped) == 3 * 3


# Breaks if a misspelled name leaves a hole in a page.
def test_what_is_missing_is_an_error(html: Template) -> None:
    with pytest.raises(UndefinedError, match="name"):
        html.said("x", rows=[{"nam": "y"}])
    with pytest.raises(UndefinedError, match="text"):
        html.said()
    with pytest.raises(TypeError, match="tex"):
        html.said(tex="x")
    with pytest.raises(AttributeError, match="sad"):
        html.sad("x")
