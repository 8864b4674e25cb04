"""`plain`: text of a program as people read it, without what a terminal does with it."""

from __future__ import annotations

import re

# Colours and movements of the cursor, titles of windows, other sequences, and control characters but the tab. The zeros
# of UTF-16 go too, so its Latin letters can be read.
_NOT_SHOWN = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """`text` without sequences and characters that a terminal does not show."""
    return _NOT_SHOWN.sub("", text)
