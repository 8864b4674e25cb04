"""One Run in a program: which second one is refused, and what the first one leaves."""

import pytest
from tests.support.trainer.stores import environment

from holdfast_train.errors import StateError
from holdfast_train.run.one_run import OneRun


def begun(uri: str | None, attempt: int = 1) -> OneRun:
    found = OneRun(environment(uri, attempt))
    found.begin()
    return found


def test_a_second_one_is_refused_while_one_runs_and_after_it_has_completed() -> None:
    first = begun("file:///one/a")
    second = OneRun(environment("file:///one/a"))
    with pytest.raises(StateError, match="its first one runs: a job has one training"):
        second.begin()
    second.end(None)  # the end of what was refused does not free the place
    with pytest.raises(StateError, match="its first one runs"):
        begun("file:///one/a")
    first.end("has completed its training")
    with pytest.raises(StateError, match=r"has completed its training.*Use one Run with the objects of all phases"):
        begun("file:///one/a")


def test_after_a_failure_another_one_begins() -> None:
    begun("file:///one/b").end(None)
    begun("file:///one/b")


def test_after_one_that_has_left_the_program_ends_with_0() -> None:
    begun("file:///one/c").end("has left")
    with pytest.raises(SystemExit) as ended:
        begun("file:///one/c")
    assert ended.value.code == 0


def test_other_attempts_other_places_and_no_storage_are_free() -> None:
    begun("file:///one/d")
    begun("file:///one/d", 2)
    begun("file:///one/e")
    begun(None)
    begun(None)
