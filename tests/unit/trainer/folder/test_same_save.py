"""Whether the folders of several nodes belong to one save: what makes a commit wait, and what does not."""

from collections.abc import Collection
from typing import Any

import pytest

from holdfast_train.folder.moment import QUIET_SECONDS
from holdfast_train.folder.same_save import FIRST, SETTLED, STEPS_ON, SameSave, Seen, why_wait

FIRST_SECONDS, SETTLED_SECONDS = FIRST * QUIET_SECONDS, SETTLED * QUIET_SECONDS
WRITES = {"is_new": True, "has_state": True}
LOGS: dict[str, Any] = {"is_new": True}
BOTH = frozenset({0, 1})


def node(rank: int, **more: Any) -> Seen:
    return Seen(rank, **{"quiet": 5.0, **more})


TABLE: dict[str, tuple[list[Seen], Collection[int] | None, int, bool | None, str]] = {
    "nobody has anything": ([node(0), node(1)], BOTH, 0, None, ""),
    "all have written": ([node(0, **WRITES), node(1, **WRITES)], BOTH, 0, None, ""),
    "one node is not at rest": (
        [node(0, **WRITES), node(1, **WRITES, waits_for="files change")],
        BOTH,
        STEPS_ON,
        None,
        "node 1: files change",
    ),
    "not at rest, but all programs have ended": (
        [node(0, **WRITES), node(1, **WRITES, waits_for="files change")],
        BOTH,
        0,
        True,
        "",
    ),
    "a node lacks its part": ([node(0, **WRITES), node(1)], BOTH, 0, None, "node 1 has not written its part"),
    "a node has only logs": ([node(0, **WRITES), node(1, **LOGS)], BOTH, 0, None, "node 1 has not written its part"),
    "a node that never wrote": ([node(0, **WRITES), node(1)], {0}, 0, None, ""),
    "another node writes now": ([node(0), node(1, **WRITES)], {0}, 0, None, "node 0 has not written its part"),
    "only logs": ([node(0, **LOGS), node(1, **LOGS)], BOTH, 0, None, ""),
    "no node changes for long": (
        [node(0, **WRITES, quiet=SETTLED_SECONDS), node(1, quiet=1e9)],
        BOTH,
        0,
        None,
        "",
    ),
    "one of them changes": (
        [node(0, **WRITES, quiet=SETTLED_SECONDS), node(1, quiet=SETTLED_SECONDS - 1)],
        BOTH,
        0,
        None,
        "node 1 has not written its part",
    ),
    "long after the end": (
        [node(0, **WRITES, quiet=SETTLED_SECONDS), node(1, quiet=SETTLED_SECONDS)],
        BOTH,
        0,
        False,
        "node 1 has not written its part",
    ),
    "training goes on": ([node(0, **WRITES), node(1)], BOTH, STEPS_ON, None, ""),
    "one step on": ([node(0, **WRITES), node(1)], BOTH, STEPS_ON - 1, None, "node 1 has not written its part"),
    "the first save": ([node(0, **WRITES), node(1, **WRITES)], None, 0, None, "the first save"),
    "the first save, at rest": (
        [node(0, **WRITES, quiet=FIRST_SECONDS), node(1, quiet=FIRST_SECONDS)],
        None,
        0,
        None,
        "",
    ),
    "the first save, training goes on": ([node(0, **WRITES), node(1)], None, STEPS_ON, None, ""),
    "the first save, all ended well": ([node(0, **WRITES), node(1)], None, 0, True, ""),
    "the first save, a program was killed": ([node(0, **WRITES), node(1)], None, 0, False, "the first save"),
    "the first save of all, killed": ([node(0, **WRITES), node(1, **WRITES)], None, 0, False, ""),
    "the first save, killed long after it": (
        [node(0, **WRITES, quiet=FIRST_SECONDS), node(1, quiet=FIRST_SECONDS)],
        None,
        0,
        False,
        "",
    ),
    "other steps are stated": (
        [node(0, **WRITES, newest="a", step=20), node(1, **WRITES, newest="b", step=10)],
        BOTH,
        STEPS_ON,
        True,
        "'a' of node 0 is of step 20, and 'b' of node 1 of step 10",
    ),
    "the same step is stated": (
        [node(0, **WRITES, newest="a", step=20), node(1, **WRITES, newest="b", step=20)],
        BOTH,
        0,
        None,
        "",
    ),
    "one states no step": ([node(0, **WRITES, newest="a", step=20), node(1, **WRITES)], BOTH, 0, None, ""),
    "other numbers": (
        [node(0, **WRITES, newest="a-2", number=2), node(1, **WRITES, newest="a-1", number=1)],
        BOTH,
        0,
        None,
        "may be two saves",
    ),
    "other numbers, killed": (
        [node(0, **WRITES, newest="a-2", number=2), node(1, **WRITES, newest="a-1", number=1)],
        BOTH,
        0,
        False,
        "may be two saves",
    ),
    "other numbers, for long": (
        [node(0, **WRITES, number=2, quiet=SETTLED_SECONDS), node(1, **WRITES, number=1, quiet=SETTLED_SECONDS)],
        BOTH,
        0,
        None,
        "",
    ),
    "another number of a node that has written nothing": (
        [node(0, **WRITES, newest="a-2", number=2), node(1, newest="a-1", number=1)],
        {0},
        0,
        None,
        "",
    ),
}


# Breaks if folders of two saves are committed together, or if those of one wait.
@pytest.mark.parametrize("name", TABLE)
def test_why_wait(name: str) -> None:
    seen, writers, steps_on, has_ended, wanted = TABLE[name]
    found = why_wait(seen, writers, steps_on, has_ended=has_ended)
    assert wanted in found
    assert bool(wanted) == bool(found)


# Breaks if a node that was not there for one save is not waited for in the next one, or for ever.
def test_who_wrote_the_last_two_saves_counts() -> None:
    same, all_wrote, one_wrote = SameSave(), [node(0, **WRITES), node(1, **WRITES)], [node(0, **WRITES), node(1)]
    same.note_committed(all_wrote)
    assert same.why_wait(one_wrote)
    same.note_committed(one_wrote)
    assert same.why_wait(one_wrote)
    same.note_committed([node(0, **LOGS), node(1, **LOGS)])  # no save
    assert same.why_wait(one_wrote)
    same.note_committed(one_wrote)
    assert not same.why_wait(one_wrote)


# Breaks if a commit names other writers than those that the next attempt has to wait for.
def test_the_writers_are_known_to_the_next_attempt() -> None:
    first, all_wrote, one_wrote = SameSave(), [node(0, **WRITES), node(1, **WRITES)], [node(0, **WRITES), node(1)]
    assert first.writers_with(all_wrote) == {0, 1}
    first.note_committed(all_wrote)
    assert first.writers_with(one_wrote) == {0, 1}
    first.note_committed(one_wrote)
    assert first.writers_with(one_wrote) == {0}
    second = SameSave()
    second.begin(first.writers_with([node(0), node(1)]))
    assert "node 1" in second.why_wait(one_wrote)
    assert not second.why_wait(all_wrote)
    of_earlier_version = SameSave()
    of_earlier_version.begin(())
    assert "first save" in of_earlier_version.why_wait(all_wrote)


# Breaks if steps from before the last change count, or if the same step counts twice.
def test_steps_after_the_last_change_count() -> None:
    same = SameSave()
    same.note_committed([node(0, **WRITES), node(1, **WRITES)])
    seen = [node(0, **WRITES, changes=3), node(1, changes=1)]
    for told in (None, 4, 4, 4):
        same.see(seen, told)
    assert same.why_wait(seen)  # one step on
    same.see([node(0, **WRITES, changes=3), node(1, changes=2)], 5)
    seen = [node(0, **WRITES, changes=3), node(1, changes=2)]
    same.see(seen, 6)
    assert same.why_wait(seen)
    same.see(seen, None)
    assert same.why_wait(seen)
    same.see(seen, 7)
    assert not same.why_wait(seen)


# Breaks if a rehearsal that takes a shorter time for the end of a save waits as long as a job.
def test_times_are_multiples_of_the_quiet_after_a_save() -> None:
    same, all_wrote, one_wrote = SameSave(0.1), [node(0, **WRITES), node(1, **WRITES)], [node(0, **WRITES), node(1)]
    at_rest = {"quiet": FIRST * 0.1}
    assert "first save" in same.why_wait([node(0, **WRITES, quiet=0.4), node(1, **WRITES, **at_rest)])
    assert not same.why_wait([node(0, **WRITES, **at_rest), node(1, **WRITES, **at_rest)])
    same.note_committed(all_wrote)
    assert "node 1" in same.why_wait([node(0, **WRITES, quiet=2.9), node(1, quiet=2.9)])
    assert not same.why_wait(one_wrote)  # at rest for 5 s
