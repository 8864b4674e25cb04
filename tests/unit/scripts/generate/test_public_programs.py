"""The tables of the public programs, and which of them a test draws."""

from typing import Any

import pytest
from scripts.generate import public_programs
from tests.zoo import results
from tests.zoo.table import PROGRAMS

MARKS = (
    "<!-- The part below is generated from tests/zoo/results.json by `make crds`. Do not edit it. -->\n"
    "<!-- end of the generated part -->\n"
)


def result(verdict: str, headline: str, *, not_tried: tuple[str, ...] = (), again: int | None = 3) -> dict[str, Any]:
    return {
        "version": "1.2",
        "verdict": verdict,
        "headline": f"{verdict}: {headline}",
        "notTried": list(not_tried),
        "date": "2026-11-28",
        "stepsAgain": dict.fromkeys(public_programs.KINDS, again),
    }


# Breaks if the page lacks a verdict, what was not tried, or a program that nobody has rehearsed.
def test_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "keras-jax": result("exact", "the loss | is equal"),
        "mace": result("differs", "a tensor differs", not_tried=("crash",), again=None),
    }
    monkeypatch.setattr(public_programs, "noted", lambda: found)
    page, readme = public_programs.page(MARKS), public_programs.readme(MARKS)
    assert "2 programs: 1 `exact`, 1 `differs`. Not rehearsed yet: " in page
    assert "`ignite`" in page
    assert "| `keras-jax` | keras 1.2 | exact | the loss \\| is equal | 3, 3, 3, 3 |" in page
    assert "| `mace` | mace-torch 1.2 | differs, without crash | a tensor differs" in page
    assert "| `mace` | differs, without crash | 2026-11-28 |" in readme


# Breaks if a draw is another one the next time, or draws a program that is not proved.
def test_draws() -> None:
    found = {name: result("exact", "all") for name in "abcdefgh"}
    found |= {"x": result("differs", "one"), "y": result("exact", "all", not_tried=("crash",))}
    assert results.drawn(found, 2, "1") == results.drawn(dict(reversed(found.items())), 2, "1")
    assert {name for seed in range(50) for name in results.drawn(found, 2, str(seed))} == {*"abcdefgh"}
    assert results.drawn(found, 99, "1") == [*"abcdefgh"]


# Breaks if results.json names a program that is gone, or if the package of a program is not locked.
def test_what_is_noted() -> None:
    assert results.noted().keys() <= PROGRAMS.keys()
    assert all(results.version(program) for program in PROGRAMS.values())
