"""Pages and code are in plain technical English: CONTRIBUTING.md has the rules. This finds words that break them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.docs.pages import GENERATED, PAGES, prose, relative

ROOT = Path(__file__).parents[3]
CODE = [path for room in ("operator", "images", "scripts") for path in sorted((ROOT / room).rglob("*.py"))]
HARD = re.compile(
    r"\b(whoever|whomever|whom|dear|dearer|for want of|thought better|tells? of|hears? of|was had|were had"
    r"|(?<!thing )(?<!body )(?<!nowhere )else|(?<!there )is no (?!longer)[a-z]+|by itself alone|stands? in"
    r"|sooner or later|reckon(?:s|ed)?|held back|anew|alike|if it is (?-i:none)|such a one)\b|(?:^|(?<=[.:;] ))who\b",
    re.IGNORECASE,
)
# They show such words: as what not to write, and as the names of fields.
EXEMPT = ("CONTRIBUTING.md",)


def hard_words(text: str) -> list[str]:
    """The words in `text` that break the rules; what is between backquotes does not count."""
    return [match.group(0) for match in HARD.finditer(" ".join(re.sub(r"`[^`]*`", "", text).split()))]


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of docstrings, comments, and other strings of several words: messages, log lines, help."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    before, lines = -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != before + 1:
                yield before, " ".join(lines)
                lines.clear()
            before = token.start[0]
            lines.append(token.string.lstrip("# "))
    yield before, " ".join(lines)


@pytest.mark.parametrize("page", [p for p in PAGES if p not in GENERATED and relative(p) not in EXEMPT], ids=relative)
def test_no_sentence_has_a_word_that_is_hard_to_read(page: Path) -> None:
    assert hard_words(prose(page)) == []


def test_no_text_of_the_code_has_a_word_that_is_hard_to_read() -> None:
    found = [
        f"{relative(path)}:{line}: {word}"
        for path in CODE
        for line, text in texts(path.read_text())
        for word in hard_words(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        '"""Who may read it."""',
        "def f():\n    raise ValueError('the file is no folder')",
        "x = 1  # counted anew",
        "# the ranks are\n# alike",
    ],
)
def test_hard_words_are_found_in_docstrings_messages_and_comments(source: str) -> None:
    assert [word for _, text in texts(source) for word in hard_words(text)]


@pytest.mark.parametrize(
    "source", ['"""There is no file, and `else` stays."""', "# it is no longer needed", "x = 'anew'"]
)
def test_good_sentences_are_left_alone(source: str) -> None:
    assert not [word for _, text in texts(source) for word in hard_words(text)]
