"""Reading the history: attempts, lost rows, and everything that may be wrong with a prefix."""

import gzip
from collections.abc import Sequence

import pytest
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.series import history
from holdfast_train.series.history import History, Part, Row, read_history
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
        if (method, key) == ("get", denied):
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
        if method == "get":
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


def test_gaps_and_segments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_SEGMENTS", 150)
    storage = MemoryStorage()
    for _ in range(200):
        storage.content[new_key(1, 1)] = b"x"
    found = read_history(storage)
    assert len(found.gaps) == history.MOST_GAPS
    assert found.gaps[0] == "the oldest 50 of 200 segments are not read"
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
