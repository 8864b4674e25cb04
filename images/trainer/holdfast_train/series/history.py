"""Read the history of a training from its storage: the rows of each attempt, and which of them were lost.

An attempt goes on from a checkpoint. What earlier attempts had trained after that step was lost: it was trained again.
Each segment says from which step its Run went on. For an attempt that has raised the fence and has no rows yet, the
commit log says it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from holdfast_train.commitlog import log, records
from holdfast_train.errors import (
    CheckpointCorruptError,
    CheckpointVersionError,
    KeyMissingError,
    StorageError,
    StorageUnreachableError,
)
from holdfast_train.format.names import log_seq
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import FOLDER, MOST_BYTES, Header, Segment, attempt_of, decode
from holdfast_train.series.selection import select
from holdfast_train.series.thinning import thin
from holdfast_train.storage.base import Entry, Storage
from holdfast_train.storage.parallel import THREADS

MOST_SEGMENTS: Final = 2_000
MOST_GAPS: Final = 100
FEWEST_OF_SEGMENT: Final = 8  # rows of a segment that are kept, however many segments there are


@dataclass(frozen=True)
class Part:
    """The `rows` that one attempt measured, in ascending order of their steps.

    `kept_through`: rows with a later step were lost, because another attempt trained these steps again. None: all were
    lost.
    """

    attempt: int
    rows: Sequence[Row]
    kept_through: int | None

    def is_lost(self, step: int) -> bool:
        """True if another attempt trained `step` again."""
        return self.kept_through is None or step > self.kept_through

    @property
    def kept(self) -> Sequence[Row]:
        """The rows that no other attempt trained again."""
        return [row for row in self.rows if not self.is_lost(row.step)]

    @property
    def lost(self) -> Sequence[Row]:
        """The rows whose steps another attempt trained again."""
        return [row for row in self.rows if self.is_lost(row.step)]

    @property
    def lost_steps(self) -> int:
        """How many steps were lost, those without a row included."""
        if not self.rows:
            return 0
        first, last = self.rows[0].step, self.rows[-1].step
        return last - first + 1 if self.kept_through is None else max(last - self.kept_through, 0)


@dataclass(frozen=True)
class History:
    """`parts`: one for each attempt that wrote, oldest first. `gaps`: what could not be read, each in a sentence."""

    parts: Sequence[Part]
    gaps: Sequence[str]


def read_history(
    storage: Storage, *, most_rows: int = 100_000, most_segments: int = MOST_SEGMENTS, job_uid: str | None = None
) -> History:
    """The history of the job that owns the prefix, or of the job `job_uid`, with about `most_rows` rows.

    An earlier job with the same prefix has a history of its own; one of the gaps names it. If a program started again
    within an attempt, the rows that it trained again take the place of those before. More rows than `most_rows` are
    thinned, to two at least for each attempt. Of more than `most_segments` segments, as many are read as that, spread
    over the steps of each attempt; one of the gaps says it. StorageUnreachableError, and other StorageErrors if the
    prefix cannot be listed; anything else that cannot be read is a gap.
    """
    gaps: list[str] = []
    listed = list(_sound(storage.entries(FOLDER), gaps))
    entries, left_out = select(listed, most_segments)
    gaps += [left_out] if left_out else []
    state = _newest_state(storage, gaps)
    share = max(FEWEST_OF_SEGMENT, 4 * most_rows // max(1, len(entries)))
    segments = list(_read(storage, entries, share, gaps))
    owner = job_uid or _owner(state, segments)
    own = [segment for segment in segments if segment.header.job_uid == owner]
    if strangers := sorted({s.header.job_uid for s in segments} - {owner}):
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        gaps.append(f"another job used this prefix before ({strangers[0]}{more}); its rows are not shown here")
    state = None if state is None or state.owner is None or state.owner.job_uid != owner else state
    gaps += _missing(own, state, {entry.key for entry in listed})
    if len(gaps) > MOST_GAPS:
        gaps[MOST_GAPS - 1 :] = [f"{len(gaps) - MOST_GAPS + 1} more segments cannot be read"]
    return History(_thinned(_parts(own, state), most_rows), gaps)


def _sound(entries: Sequence[Entry], gaps: list[str]) -> Iterator[Entry]:
    """The segments that are worth reading."""
    for entry in sorted(entries, key=lambda entry: (entry.modified_at, entry.key)):
        if attempt_of(entry.key) is None:
            gaps.append(f"{entry.key[:120]!r} has not the name of a segment; it is left out")
        elif entry.size > MOST_BYTES:
            gaps.append(f"{entry.key} has {entry.size} bytes; allowed: {MOST_BYTES}; it is left out")
        else:
            yield entry


def _newest_state(storage: Storage, gaps: list[str]) -> records.LogState | None:
    """What the commit log says, None if there is none or it cannot be read."""
    numbers = [seq for key in storage.keys("log/") if (seq := log_seq(key)) is not None]
    if not numbers:
        return None
    try:
        return log.read(storage, max(numbers))[1]
    except StorageUnreachableError:
        raise
    except (StorageError, CheckpointVersionError) as error:
        gaps.append(f"the commit log cannot be read, so some lost rows may look kept: {error}")
        return None


def _read(storage: Storage, entries: Sequence[Entry], share: int, gaps: list[str]) -> Iterator[Segment]:
    """The segments that can be read, each with at most `share` rows."""

    def read(entry: Entry) -> Segment | str:
        try:
            data = bytearray(entry.size)  # not more, even if it grows meanwhile
            storage.read_into(entry.key, 0, memoryview(data))
            found = decode(entry.key, bytes(data))
        except KeyMissingError:
            return f"{entry.key} was deleted while the history was read"
        except StorageUnreachableError:
            raise
        except (StorageError, CheckpointVersionError) as error:
            return str(error) if isinstance(error, CheckpointCorruptError) else f"{entry.key} cannot be read: {error}"
        return Segment(found.key, found.header, thin(found.rows, share))

    with ThreadPoolExecutor(THREADS, "holdfast-history") as pool:
        for found in pool.map(read, entries):
            if isinstance(found, str):
                gaps.append(found)
            else:
                yield found


def _owner(state: records.LogState | None, segments: Sequence[Segment]) -> str:
    """The UID of the job whose history is asked for: the owner of the prefix, otherwise the one that wrote last."""
    if state is not None and state.owner is not None:
        return state.owner.job_uid
    return max(((s.header.begun, s.header.job_uid) for s in segments), default=(0.0, ""))[1]


def _missing(segments: Sequence[Segment], state: records.LogState | None, listed: set[str]) -> Iterator[str]:
    """Each segment that a commit or another segment names, and that is not there."""
    commits = () if state is None else state.every
    named = {key: f"the checkpoint of step {commit.step}" for commit in commits for key in commit.series}
    named |= {s.header.previous: f"the segment after it, {s.key}," for s in segments if s.header.previous}
    for key, by in sorted(named.items()):
        if key not in listed:
            yield f"{key[:120]} is missing: {by} names it"


def _parts(segments: Sequence[Segment], state: records.LogState | None) -> list[Part]:
    attempts: dict[int, list[Segment]] = {}
    for segment in segments:
        attempts.setdefault(segment.header.attempt, []).append(segment)
    parts: list[Part] = []
    limit = _resumed_without_rows(state, max(attempts, default=0))  # rows up to here are kept, None: all rows
    for attempt in sorted(attempts, reverse=True):
        rows = _of_attempt(attempts[attempt])
        kept = rows[-1].step if limit is None else min(limit, rows[-1].step)
        parts.append(Part(attempt, rows, kept if kept >= rows[0].step else None))
        resumed = min(segment.header.resumed or 0 for segment in attempts[attempt])
        limit = resumed if limit is None else min(limit, resumed)
    return parts[::-1]


def _resumed_without_rows(state: records.LogState | None, newest: int) -> int | None:
    """The step from which the training goes on if the attempt `newest` is over, None if it is not.

    None too if it goes on from a file whose name says no step: the rows of the next attempt tell it.
    """
    if state is None or state.fence is None:
        return None
    is_rolled_back = bool(state.rollbacks) and state.rollbacks[-1].seq > state.fence.seq
    if state.fence.attempt <= newest and not is_rolled_back:
        return None
    last = records.newest(state)
    return 0 if last is None else last.step or None


def _of_attempt(segments: Sequence[Segment]) -> Sequence[Row]:
    """The rows of one attempt. What a later Run of it trained again takes the place of the earlier rows."""
    runs: dict[tuple[float, str], list[Segment]] = {}
    for segment in segments:
        runs.setdefault((segment.header.begun, segment.header.run), []).append(segment)
    rows: dict[int, Row] = {}
    for key in sorted(runs):
        headers: Iterable[Header] = (segment.header for segment in runs[key])
        resumed = min(header.resumed or 0 for header in headers)
        rows = {step: row for step, row in rows.items() if step <= resumed}
        for segment in runs[key]:
            for row in segment.rows:
                before: Mapping[str, float] = rows[row.step].values if row.step in rows else {}
                rows[row.step] = Row(row.step, row.at, {**before, **row.values})
    return [rows[step] for step in sorted(rows)]


def _thinned(parts: Sequence[Part], most: int) -> Sequence[Part]:
    total = sum(len(part.rows) for part in parts)
    if total <= most:
        return parts
    shared = max(0, most - 2 * len(parts))
    return [Part(p.attempt, thin(p.rows, 2 + len(p.rows) * shared // total), p.kept_through) for p in parts]
