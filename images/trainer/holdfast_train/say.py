"""One line for people, on stderr."""

import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Write `holdfast: text`. Never fails: a broken pipe must not end a training."""
    try:
        sys.stderr.write(f"holdfast: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
