"""Reading the history: attempts, lost rows, and everything that may be wrong with a prefix."""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.series import history
from holdfast_train.series.history import History, Part, read_history
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import MOST_ROWS, Header, encode, new_key


def write(
    storage: MemoryStorage,
    number: int,
    steps: Sequence[int],
    *,
    resumed: int | None = None,
    begun: float = 0.0,
    uid: str = "uid-1",
    previous: str | None = None,
) -> str:
    """A segment of the attempt `number` with these steps."""
    key = new_key(steps[0], number)
    rows = [Row(step, 1000.0 + step, {"loss": step + begun / 100}) for step in steps]
    header = Header(uid, number, f"run-{number}-{begun}", begun or float(number), resumed, previous)
    storage.content[key] = encode(header, rows)
    return key


def shown(found: History) -> list[tuple[int, list[int], int | None]]:
    return [(part.attempt, [row.step for row in part.rows], part.kept_through) for part in found.parts]


def test_an_empty_prefix() -> None:
    assert read_history(MemoryStorage()) == History([], [])


# Breaks if rows that a later attempt trained again look kept, also if that attempt began at step 0.
def test_lost_rows() -> None:
    storage = MemoryStorage()
    write(storage, 1, [1, 2, 3, 4, 5])
    write(storage, 2, [4, 5, 6], resumed=3)
    write(storage, 10, [5, 6, 7], resumed=4)
    found = read_history(storage)
    assert shown(found) == [(1, [1, 2, 3, 4, 5], 3), (2, [4, 5, 6], 4), (10, [5, 6, 7], 7)]
    assert found.gaps == []
    assert found.parts[0].rows[2] == Row(3, 1003.0, {"loss": 3.0})
    write(storage, 11, [1], resumed=None)
    assert shown(read_history(storage)) == [
        (1, [1, 2, 3, 4, 5], None),
        (2, [4, 5, 6], None),
        (10, [5, 6, 7], None),
        (11, [1], 1),
    ]


# Breaks if what the fence says is not used: the newest attempt has no rows yet, and the rows before it are lost.
def test_an_attempt_without_rows_shows_what_is_lost() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 3)
    write(storage, 1, [1, 2, 3, 4, 5])
    assert shown(read_history(storage)) == [(1, [1, 2, 3, 4, 5], 5)]
    attempt(storage, identity(2))
    assert shown(read_history(storage)) == [(1, [1, 2, 3, 4, 5], 3)]


# Breaks if all rows look lost while nobody knows from which step a program goes on: its files' names say none.
def test_an_attempt_that_goes_on_from_a_step_that_nobody_knows() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 0)
    write(storage, 1, [1, 2, 3, 4, 5])
    attempt(storage, identity(2))
    assert shown(read_history(storage)) == [(1, [1, 2, 3, 4, 5], 5)]


def test_a_rollback_loses_rows() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 2, 4)
    write(storage, 1, [1, 2, 3, 4, 5])
    first.log.roll_back(first.log.state.commits[0].seq, "the loss exploded")
    assert shown(read_history(storage)) == [(1, [1, 2, 3, 4, 5], 2)]


# Breaks if a program that started again within its attempt has two rows of one step.
def test_a_restart_within_an_attempt_replaces_rows() -> None:
    storage = MemoryStorage()
    write(storage, 1, [1, 2, 3, 4, 9], begun=100.0)
    write(storage, 1, [3, 4, 5], begun=200.0, resumed=2)
    found = read_history(storage)
    assert shown(found) == [(1, [1, 2, 3, 4, 5], 5)]
    assert [row.values["loss"] for row in found.parts[0].rows] == [2.0, 3.0, 5.0, 6.0, 7.0]


# Breaks if one bad segment hides the others, or if nothing says that it is missing.
def test_bad_segments_are_gaps() -> None:
    storage = MemoryStorage()
    cut, gone, _, denied = (write(storage, 1, [step], previous=None) for step in (1, 2, 3, 4))
    write(storage, 1, [5], previous=gone)
    storage.content[cut] = storage.content[cut][:-5]
    del storage.content[gone]
    storage.content["series/<b>.txt"] = b"?"
    storage.content[new_key(9, 1)] = gzip.compress(b"\0" * (32 << 20))
    storage.content[new_key(8, 1)] = b"x" * (5 << 20)

    def refuse(method: str, key: str) -> None:
        if (method, key) == ("read_into", denied):
            raise StorageDeniedError("no permission to read")

    storage.before = refuse
    found = read_history(storage)
    assert shown(found) == [(1, [3, 5], 5)]
    said = "\n".join(found.gaps)
    assert len(found.gaps) == 6
    for words in (
        f"{cut} is damaged: it ends too early",
        f"{gone} is missing: the segment after it",
        "'series/<b>.txt' has not the name of a segment",
        "its content has more than",
        "has 5242880 bytes",
        f"{denied} cannot be read: no permission",
    ):
        assert words in said


def test_a_damaged_log_is_a_gap() -> None:
    storage = MemoryStorage()
    attempt(storage, identity(1))
    write(storage, 1, [1])
    storage.content["log/000000000002.json"] = b"{}"
    found = read_history(storage)
    assert shown(found) == [(1, [1], 1)]
    assert "the commit log cannot be read" in found.gaps[0]


# Breaks if an outage of the storage looks like a damaged history.
def test_an_unreachable_storage_is_an_error() -> None:
    storage = MemoryStorage()
    write(storage, 1, [1])

    def fail(method: str, key: str) -> None:
        if method == "read_into":
            raise StorageUnreachableError("down")

    storage.before = fail
    with pytest.raises(StorageUnreachableError):
        read_history(storage)


# Breaks if the attempts of two jobs that used one prefix are taken for those of one.
def test_another_job_has_a_history_of_its_own() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 3)
    write(storage, 1, [1, 2, 3, 4])
    attempt(storage, identity(1, uid="uid-2"))
    write(storage, 1, [4, 5], uid="uid-2", resumed=3, begun=50.0)
    found = read_history(storage)
    assert shown(found) == [(1, [4, 5], 5)]
    assert found.gaps == ["another job used this prefix before (uid-1); its rows are not shown here"]
    assert shown(read_history(storage, job_uid="uid-1")) == [(1, [1, 2, 3, 4], 4)]


# Breaks if a long history does not fit into the wanted number of rows, or loses an attempt.
def test_many_rows_are_thinned() -> None:
    storage = MemoryStorage()
    for begin in range(1, 10 * MOST_ROWS, MOST_ROWS):
        write(storage, 1, range(begin, begin + MOST_ROWS))
    write(storage, 2, [5], resumed=4)
    found = read_history(storage, most_rows=1000)
    assert [part.attempt for part in found.parts] == [1, 2]
    assert 900 < sum(len(part.rows) for part in found.parts) <= 1000
    assert found.parts[0].rows[-1].step == 10 * MOST_ROWS


def test_gaps_and_segments_are_bounded() -> None:
    storage = MemoryStorage()
    for _ in range(200):
        storage.content[new_key(1, 1)] = b"x"
    found = read_history(storage, most_segments=150)
    assert len(found.gaps) == history.MOST_GAPS
    assert found.gaps[0] == "50 of 200 segments are not read; the others are spread over the steps of each attempt"
    assert found.gaps[-1] == "52 more segments cannot be read"


# Breaks if a page, a table or a file counts other steps as lost than the rest.
@pytest.mark.parametrize(
    ("kept_through", "kept", "lost", "steps"), [(None, [], [2, 4, 9], 8), (4, [2, 4], [9], 5), (9, [2, 4, 9], [], 0)]
)
def test_what_was_kept_and_what_was_lost(
    kept_through: int | None, kept: list[int], lost: list[int], steps: int
) -> None:
    part = Part(1, [Row(step, 0.0, {}) for step in (2, 4, 9)], kept_through)
    assert [row.step for row in part.kept] == kept
    assert [row.step for row in part.lost] == lost
    assert (part.lost_steps, part.is_lost(4)) == (steps, kept_through is None)


# Breaks if a long training loses the begin or the end of its curve, an attempt, or what says which rows were lost.
def test_many_segments_are_spread_over_the_steps() -> None:
    storage = MemoryStorage()
    previous = None
    for step in range(1, 1001):
        previous = write(storage, 1, [step], previous=previous)
    write(storage, 2, [991, 992], resumed=990)
    for step in range(901, 1301):
        write(storage, 3, [step], resumed=900)
    whole, found = read_history(storage), read_history(storage, most_segments=60)
    assert whole.gaps == []
    assert (
        [part.kept_through for part in found.parts] == [part.kept_through for part in whole.parts] == [900, None, 1300]
    )
    first, second, third = ([row.step for row in part.rows] for part in found.parts)
    assert (first[0], first[-1], second, third[0], third[-1]) == (1, 1000, [991, 992], 901, 1300)
    assert max(after - before for before, after in pairwise(first)) < 60
    assert 50 <= len(first) + len(third) <= 59
    (said,) = found.gaps
    assert said.endswith("of 1401 segments are not read; the others are spread over the steps of each attempt")


# Breaks if the start of a program that trained steps again within an attempt is not read: both rows would look kept.
def test_a_restart_within_an_attempt_is_read_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    for step in range(1, 301):
        write(storage, 1, [step], begun=100.0)
    newest = write(storage, 1, [151], begun=200.0, resumed=150)
    listed = [
        replace(entry, modified_at=entry.modified_at + timedelta(seconds=entry.key == newest))
        for entry in storage.entries("series/")
    ]
    monkeypatch.setattr(storage, "entries", lambda _: listed)
    (part,) = read_history(storage, most_segments=20).parts
    assert part.rows[-1] == Row(151, 1151.0, {"loss": 153.0})


# Breaks if an object that grows after the listing is read whole.
def test_not_more_is_read_than_was_listed() -> None:
    storage = MemoryStorage()
    key = write(storage, 1, [1])

    def grow(method: str, name: str) -> None:
        if name == key:
            storage.content[key] += b"x" * 100

    storage.before = grow
    found = read_history(storage)
    assert shown(found) == [(1, [1], 1)]
    assert found.gaps == []
