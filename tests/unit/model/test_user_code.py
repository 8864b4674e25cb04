"""Errors of the user's program: one line that says where, and what."""

import json
import sys

import pytest

from holdfast_model.user_code import called, words_of
from holdfast_train.errors import HoldfastTrainError, StateError


def fails() -> None:
    json.loads("{")


# Breaks if the line of a library is told, which says nothing to the user, or if the error has several lines.
def test_the_line_of_the_user_is_told() -> None:
    with pytest.raises(StateError) as caught:
        called("--problem train:problem", fails)
    said = str(caught.value)
    assert said.startswith(f"--problem train:problem raised an error: {__file__}, line ")
    assert said.count('in fails (json.loads("{")): JSONDecodeError: ') == 1
    assert words_of(ValueError("a\n b\x1b[2J")) == "ValueError: a b[2J"


# Breaks if a program that reads its command line when it is imported ends the command with its own usage.
def test_a_program_that_exits_is_an_error() -> None:
    with pytest.raises(StateError, match=r"ends the program \(sys\.exit\) at .*test_user_code.*below `if __name__"):
        called("the import of train", lambda: sys.exit(2))


def test_our_own_errors_stay_what_they_are() -> None:
    def refuses() -> None:
        raise HoldfastTrainError("no")

    with pytest.raises(HoldfastTrainError, match=r"^no$"):
        called("a", refuses)
