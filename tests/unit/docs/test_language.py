"""The pages are in plain technical English: CONTRIBUTING.md has the rules. This finds words that break them."""

import re
from pathlib import Path

import pytest
from tests.unit.docs.pages import GENERATED, PAGES, prose, relative

HARD = re.compile(
    r"\b(whoever|whomever|whom|dear|dearer|for want of|thought better|tells? of|hears? of|was had|were had"
    r"|(?<!thing )(?<!nowhere )else|(?<!there )is no [a-z]+|by itself alone|stands? in|sooner or later"
    r"|reckon(?:s|ed)?|held back)\b",
    re.IGNORECASE,
)
# They show such words: as what not to write, and as the names of fields.
EXEMPT = ("CONTRIBUTING.md",)


@pytest.mark.parametrize("page", [p for p in PAGES if p not in GENERATED and relative(p) not in EXEMPT], ids=relative)
def test_no_sentence_has_a_word_that_is_hard_to_read(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", prose(page))
    assert [match.group(0) for match in HARD.finditer(text)] == []
