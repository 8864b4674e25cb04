"""Pieces of HTML escape every text."""

import pytest

from holdfast_model.pages.drawings import bar, matrix
from holdfast_model.pages.fragments import (
    Figure,
    Markup,
    figures,
    folded,
    note,
    pairs,
    paragraph,
    picture,
    size_text,
    table,
    title,
)

BAD = '<b>"&'


@pytest.mark.parametrize(
    "made",
    [
        title(BAD, BAD), paragraph(BAD), note(BAD), pairs([(BAD, BAD)]), table([BAD], [[BAD]]), folded(BAD, ""),
        figures([Figure(BAD, BAD, BAD)]), picture(b"x", BAD, BAD, [BAD]), matrix([BAD], [[3]]),
    ],
)  # fmt: skip
def test_every_text_is_escaped(made: str) -> None:
    assert "<b>" not in made
    assert "&lt;b&gt;&quot;&amp;" in made


def test_markup_is_not_escaped_again() -> None:
    assert "<svg" in table(["x"], [[bar(0.5)]])
    assert Markup("<i>") in pairs([("x", Markup("<i>"))])


# Breaks if a small file is said to have 0.00 MB.
@pytest.mark.parametrize(
    ("count", "said"), [(0, "0.0 kB"), (4_404, "4.4 kB"), (1_093_000, "1.09 MB"), (2 * 10**9, "2,000.00 MB")]
)
def test_sizes(count: int, said: str) -> None:
    assert size_text(count) == said
