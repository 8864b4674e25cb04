"""The upload of a checkpoint from an arena: parts as soon as they are copied, then the manifest and the commit."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from dataclasses import dataclass, replace
from typing import Final

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.errors import (
    HoldfastTrainError,
    KeyMissingError,
    RankMissingError,
    StorageError,
    StorageUnreachableError,
    WriterLostError,
)
from holdfast_train.format import manifest
from holdfast_train.format.assembly import assemble, check_fragment
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import tree_sums
from holdfast_train.save.heartbeat import Heartbeat
from holdfast_train.save.job import Job
from holdfast_train.save.messages import Save
from holdfast_train.save.plan import Plan
from holdfast_train.series.recorder import SeriesRecorder
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.timings import USUAL, Timings

THREADS: Final = 4  # parts that are uploaded at once
PARTS: Final = 64  # about as many objects as a rank writes for a large checkpoint
FRAGMENTS: Final = 16  # fragments that rank 0 looks for at once: there may be hundreds of ranks
FRAGMENT_EVERY: Final = 0.05  # seconds between two looks for a fragment


@dataclass(frozen=True)
class _FrozenParts:
    """The parts of frozen tensors that this writer has uploaded under `name`."""

    name: CheckpointName
    share: tuple[Part, ...]
    own: tuple[Part, ...]


class Upload:
    """Uploads the checkpoints of one rank, no faster than `rate`; rank 0 also commits them.

    `is_leaving` is true if the pod has to leave: then an upload does not wait until old checkpoints are deleted. Rank 0
    names the segments of `series` in its commits.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        storage: RetryingStorage,
        rank: int,
        ranks: int,
        rate: RateLimit | None = None,
        *,
        is_leaving: Callable[[], bool] = lambda: False,
        series: SeriesRecorder | None = None,
        timings: Timings = USUAL,
    ) -> None:
        self._timings = timings
        self._checkpoints = checkpoints
        self._storage = storage
        self._rate = rate
        self._rank = rank
        self._ranks = ranks
        self._is_leaving = is_leaving
        self._series = series
        self._heartbeat = Heartbeat(storage, rank, lambda: 0 if rate is None else rate.passed)
        self._frozen: _FrozenParts | None = None

    def expect(self, save: Save) -> None:
        """`save` will be run. Rank 0 waits for this rank as long as it makes progress, also with an earlier save."""
        if self._rank > 0:
            self._heartbeat.begin(save.name)

    def run(self, job: Job) -> Saved | None:
        """Upload `job`. Rank 0 commits when all ranks have uploaded; other ranks return None. StorageErrors.

        After an error the save is given up, unless it was dropped, for which the caller calls `give_up`, or is kept.
        """
        job.tries += 1
        job.is_kept = False
        try:
            return self._commit(job) if self._rank == 0 else self._tell(job)
        except HoldfastTrainError as error:
            job.is_kept = self._may_keep(job, error)
            if not (job.is_kept or job.is_dropped):
                self.give_up(job, str(error))
            raise
        finally:
            self._heartbeat.end(job.save.name)

    def give_up(self, job: Job, why: str) -> None:
        """Delete what is written of `job`. Another rank than 0 tells rank 0 `why`.

        It deletes nothing once rank 0 may know of its part, because rank 0 may have committed the checkpoint since.
        """
        written = [name for name in (job.save.name, job.save.fresh) if name is not None]
        if self._rank == 0:
            for name in written:
                self._checkpoints.discard(name)
            return
        if job.is_told:
            return
        # First the parts, because a full volume may have no room for the fragment; rank 0 deletes what stays.
        for name in written:
            with contextlib.suppress(StorageError):
                self._storage.delete(self._storage.keys(name.part_prefix(self._rank)))
        with contextlib.suppress(StorageError):  # without it rank 0 waits until its time is up
            self._storage.put(job.save.name.fragment_key(self._rank), Fragment(self._rank, failed=why).encode())

    def _may_keep(self, job: Job, error: HoldfastTrainError) -> bool:
        """True if a later try may succeed, and there is time for it.

        A rank that is missing may have given up its part: only a new save of all ranks is certain to have all parts.
        """
        is_passing = isinstance(error, StorageUnreachableError) and not isinstance(error, RankMissingError)
        has_time = math.isinf(job.save.at_most) and not self._is_leaving() and math.isinf(job.arriving.ended_at)
        return is_passing and has_time and not job.is_dropped

    def _commit(self, job: Job) -> Saved:
        if not job.is_prepared:
            self._checkpoints.prepare(self._is_leaving)
            job.is_prepared = True
        request = 0 if self._series is None else self._series.request()
        mine = self._write(job)
        if job.manifest is None:
            draft = self._draft(job)
            job.manifest = assemble(draft, [mine, *self._wait_for_fragments(job, draft, mine)])
        job.check()
        segments = () if self._series is None else self._series.written(request, self._series_seconds(job))
        save = job.save
        fresh = () if save.fresh is None else (save.fresh,)
        saved = self._checkpoints.publish(job.manifest, save.begun, fresh, save.clean, series=segments)
        if self._series is not None:
            self._series.mark_named(segments)
        return saved

    def _series_seconds(self, job: Job) -> float:
        """How long the commit waits for the history: not at all if the pod has to leave."""
        return self._timings.history if math.isinf(job.save.at_most) and not self._is_leaving() else 0.0

    def _tell(self, job: Job) -> Saved | None:
        """Upload the part of another rank than 0, and tell rank 0 of it."""
        mine = self._write(job).encode()
        job.is_told = True
        self._storage.put(job.save.name.fragment_key(self._rank), mine)
        return None

    def _write(self, job: Job) -> Fragment:
        """Upload all parts, each as soon as its bytes are copied. The first error ends the upload."""
        plan = job.plan
        numbers: list[list[int]] = [[], [], [], []]  # of the parts, by section
        pending: list[Future[None]] = []
        with ThreadPoolExecutor(THREADS, "holdfast-put") as pool:
            try:
                for number, (section, start, stop) in enumerate(_pieces(plan)):
                    job.arriving.wait_for(stop)
                    _raise_first(pending)
                    numbers[section].append(number)
                    if number not in job.parts:
                        key = self._key(job, number, section)
                        pending.append(pool.submit(self._put, job, number, key, job.arriving.view[start:stop]))
                wait_for_futures(pending, return_when=FIRST_EXCEPTION)
                _raise_first(pending)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        sections = [tuple(job.parts[number] for number in section) for section in numbers]
        if job.save.fresh is not None and not plan.keeps:
            self._frozen = _FrozenParts(job.save.fresh, sections[0], sections[1])
        return self._fragment_of(job, sections)

    def note(self, job: Job) -> CopyNote:
        """What the copy of this rank contains. Waits until all bytes are copied. StorageError if they will not be."""
        sections: list[list[Part]] = [[], [], [], []]
        for number, (section, start, stop) in enumerate(_pieces(job.plan)):
            job.arriving.wait_for(stop)
            sections[section].append(job.part(number, self._key(job, number, section), job.arriving.view[start:stop]))
        fragment = self._fragment_of(job, [tuple(parts) for parts in sections])
        note = CopyNote(job.save.name, self._ranks, fragment, has_frozen=not job.plan.keeps)
        fence = self._checkpoints.log.fence
        return note if fence is None else replace(note, draft=self._draft(job), fence=fence.seq)  # on rank 0

    def _fragment_of(self, job: Job, sections: Sequence[tuple[Part, ...]]) -> Fragment:
        """The fragment of a job with the parts of its four `sections`."""
        save, plan = job.save, job.plan
        frozen_share, frozen_own = self._kept_parts(save) if plan.keeps else (sections[0], sections[1])
        return Fragment(
            rank=self._rank,
            form=plan.form,
            frozen_share=frozen_share,
            frozen_own=frozen_own,
            share=sections[2],
            own=sections[3],
            tensors=plan.own_tensors,
            tree=save.own,
            sums=job.arriving.sums,
            objects={**tree_sums(save.tree, save.apart), **save.sums} if self._ranks > 1 else {},
        )

    def _key(self, job: Job, number: int, section: int) -> str:
        """The key of part `number`, which lies in a section of the arena."""
        name = job.save.fresh if section < 2 and job.save.fresh is not None else job.save.name
        return name.part_key(self._rank, number)

    def _kept_parts(self, save: Save) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """The parts of frozen tensors that an earlier save has written: of the share, and of this rank alone."""
        kept = self._frozen
        if kept is None or kept.name != save.kept:
            raise WriterLostError(
                f"step {save.step} is not saved: the writer process that uploaded the frozen parameters has ended"
            )
        return kept.share, kept.own

    def _put(self, job: Job, number: int, key: str, piece: memoryview) -> None:
        job.check()
        part = job.part(number, key, piece)  # its checksums, before the upload: damage in transit cannot pass
        self._storage.write(key, piece, sums=part.crc64nvme, rate=self._rate)
        job.parts[number] = part

    def _wait_for_fragments(self, job: Job, draft: Manifest, mine: Fragment) -> Iterator[Fragment]:
        """The fragments of the other ranks, in order. RankMissingError names the first that is missing.

        For other errors see `check_fragment`.
        """
        save = job.save
        now = time.monotonic()
        latest, deadline = now + save.at_most, now + self._timings.fragment
        orphaned = 2 * (now - save.begun) + self._timings.orphan

        def wait(rank: int) -> Fragment:
            nonlocal deadline
            written = 0
            while (found := self._fragment(save, rank)) is None:
                job.check()
                if (now := time.monotonic()) > min(latest, job.arriving.ended_at + orphaned):
                    raise RankMissingError(f"rank {rank} has not written its part of step {save.step} in time")
                if now > deadline:
                    before, written = written, len(self._storage.keys(save.name.part_prefix(rank)))
                    if written == before:
                        raise RankMissingError(
                            f"rank {rank} has written nothing for step {save.step} in {self._timings.fragment:.0f} s"
                        )
                    deadline = now + self._timings.fragment
                time.sleep(FRAGMENT_EVERY)
            return found

        for fragment in self._in_order(save, wait):
            check_fragment(draft, mine, fragment)
            yield fragment

    def _in_order(self, save: Save, wait: Callable[[int], Fragment]) -> Iterator[Fragment]:
        """The fragments of ranks 1 to the last. After one that had to be waited for, the next ones are read at once."""
        known: dict[int, Fragment | None] = {}
        with ThreadPoolExecutor(FRAGMENTS, "holdfast-fragment") as pool:
            for rank in range(1, self._ranks):
                if known.get(rank) is None:
                    known[rank] = wait(rank)
                    last = min(rank + FRAGMENTS, self._ranks - 1)
                    after = [other for other in range(rank + 1, last + 1) if known.get(other) is None]
                    known |= zip(after, pool.map(lambda other: self._fragment(save, other), after), strict=True)
                fragment = known.pop(rank)
                assert fragment is not None
                yield fragment

    def _fragment(self, save: Save, rank: int) -> Fragment | None:
        """What `rank` has written, None if it has not finished. RankMissingError if it has given up."""
        try:
            fragment = Fragment.decode(self._storage.get(save.name.fragment_key(rank)))
        except KeyMissingError:
            return None
        if fragment.failed:
            raise RankMissingError(f"rank {rank} could not write its part of step {save.step}: {fragment.failed}")
        return fragment

    def _draft(self, job: Job) -> Manifest:
        """What rank 0 knows of the manifest: see `assemble`."""
        save = job.save
        return Manifest(
            name=save.name,
            step=save.step,
            attempt=self._checkpoints.identity.attempt,
            job_uid=self._checkpoints.identity.job_uid,
            at=now(),
            versions=save.versions,
            program=save.program,
            metrics=save.metrics,
            parts=(),
            tensors=job.plan.common,
            state=save.tree,
            ranks=(),
        )


def _pieces(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """The parts into which the arena is cut: section, start and stop. No part has bytes of two sections."""
    length = manifest.PART_BYTES * max(1, -(-plan.size // (PARTS * manifest.PART_BYTES)))
    begin = 0
    for section, size in enumerate(plan.sections):
        for start in range(begin, begin + size, length):
            yield section, start, min(start + length, begin + size)
        begin += size


def _raise_first(pending: list[Future[None]]) -> None:
    for future in pending:
        if future.done() and (error := future.exception()) is not None:
            raise error
