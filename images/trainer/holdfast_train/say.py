"""Prints one line for people to stderr."""

import sys


def say(text: str) -> None:
    """Print `holdfast: text`. Never fails: a broken pipe must not end training."""
    try:
        sys.stderr.write(f"holdfast: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
