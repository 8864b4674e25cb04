"""Text of programs without what a terminal does with it."""

import time

import pytest

from holdfast_train.pod.launcher.plain_text import plain


# Breaks if what a program prints can move the cursor of who reads its last lines, or set the title of the window.
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mERROR\x1b[0m: bad\tthing", "ERROR: bad\tthing"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07a\x1b]8;;https://x\x1b\\b", "ab"),
        ("\x1bM\x9b31mx\x00\x7f", "31mx"),
        ("ümlaut 漢字 ✓", "ümlaut 漢字 ✓"),
        ("\x1b[", "["),
    ],
)
def test_text_without_sequences(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_any_text_takes_little_time() -> None:
    began = time.thread_time()
    for text in ("\x1b[" * 100_000, "\x1b]" * 100_000, "\x1b[" + "1" * 200_000, "\x1b]" + "\x1b" * 200_000):
        assert "\x1b" not in plain(text)
    assert time.thread_time() - began < 5
