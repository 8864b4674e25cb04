"""A row of the transition table: a guard, a deed, and the words that people read about it."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, TypeVar, overload

from holdfast.api.attempt import AttemptState
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight
from holdfast.core.turn import Turn

Found = TypeVar("Found")
States = tuple[AttemptState | None, ...]
Sights = tuple[Sight, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One transition. `states` and `sights` restrict it, empty for any. Made by `row` or `job_row`, which check types.

    `when` returns what it found, and `do` gets it. None and False mean that the row does not fit. A guard that has
    nothing to hand on returns True, and its deed takes the subject alone. The subject is the attempt's Turn, or the
    Draft if the row is about the job as a whole: only such rows fit a job without an attempt.
    """

    name: str
    states: States
    sights: Sights
    when: Callable[[Any], Any]
    do: Callable[..., None]
    then: str
    about_job: bool = False

    @property
    def guard(self) -> str:
        """What `when` checks, for people: its docstring's first line from the word "if" on; empty if it always fits."""
        return (getdoc(self.when) or "").partition("\n")[0].partition(" if ")[2].rstrip(".")

    def may_fit(self, state: AttemptState | None, sights: frozenset[Sight]) -> bool:
        """True if the row is for this state and one of the sights; it fires if `when` finds something too."""
        if state is None and not self.about_job:
            return False
        return (not self.states or state in self.states) and (not self.sights or not sights.isdisjoint(self.sights))


@overload
def row(
    name: str, states: States, sights: Sights, when: Callable[[Turn], bool], do: Callable[[Turn], None], *, then: str
) -> Row: ...
@overload
def row(
    name: str,
    states: States,
    sights: Sights,
    when: Callable[[Turn], Found | None],
    do: Callable[[Turn, Found], None],
    *,
    then: str,
) -> Row: ...
def row(
    name: str, states: States, sights: Sights, when: Callable[[Turn], Any], do: Callable[..., None], *, then: str
) -> Row:
    """A row about one attempt."""
    return Row(name, states, sights, when, do, then)


@overload
def job_row(
    name: str, states: States, when: Callable[[Draft], bool], do: Callable[[Draft], None], *, then: str
) -> Row: ...
@overload
def job_row(
    name: str, states: States, when: Callable[[Draft], Found | None], do: Callable[[Draft, Found], None], *, then: str
) -> Row: ...
def job_row(name: str, states: States, when: Callable[[Draft], Any], do: Callable[..., None], *, then: str) -> Row:
    """A row about the job, in any state of its pods."""
    return Row(name, states, (), when, do, then, about_job=True)
