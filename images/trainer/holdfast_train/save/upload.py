"""The upload of a checkpoint from an arena: parts as soon as they are copied, then the manifest and the commit."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.errors import (
    HoldfastTrainError,
    KeyMissingError,
    RanksDifferError,
    StateError,
    StorageError,
    StorageUnreachableError,
    WriterLostError,
)
from holdfast_train.format import manifest
from holdfast_train.format.alike import difference, draw_of, tree_sums
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import names
from holdfast_train.save.arriving import ArrivingBytes
from holdfast_train.save.fragment import Fragment
from holdfast_train.save.heartbeat import Heartbeat
from holdfast_train.save.messages import Save
from holdfast_train.save.plan import Plan, merge_entries
from holdfast_train.storage import checksums
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.retrying import RetryingStorage

__all__ = ["Upload"]

THREADS: Final = 4  # parts that are uploaded at once
PARTS: Final = 64  # about as many objects as a rank writes for a large checkpoint
FRAGMENT_SECONDS: Final = 120.0  # rank 0 waits this long for a rank that writes nothing, when its own part is uploaded
ORPHAN_SECONDS: Final = 10.0  # if the trainer has ended, it waits twice the time of its own part, and this
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

    `is_leaving` is true if the pod has to leave: then an upload does not wait until old checkpoints are deleted.
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
    ) -> None:
        self._checkpoints = checkpoints
        self._storage = storage
        self._rate = rate
        self._rank = rank
        self._ranks = ranks
        self._is_leaving = is_leaving
        self._heartbeat = Heartbeat(storage, rank, lambda: 0 if rate is None else rate.passed)
        self._frozen: _FrozenParts | None = None

    def expect(self, save: Save) -> None:
        """`save` will be run. Rank 0 waits for this rank as long as it makes progress, also with an earlier save."""
        if self._rank > 0:
            self._heartbeat.begin(save.name)

    def run(self, save: Save, plan: Plan, arriving: ArrivingBytes) -> Saved | None:
        """Upload `arriving`. Rank 0 commits when all ranks have uploaded; other ranks return None. StorageErrors."""
        if self._rank == 0:
            try:
                self._checkpoints.prepare(self._is_leaving)
                mine = self._write(save, plan, arriving)
                others = self._wait_for_fragments(save, plan, arriving, mine)
                return self._checkpoints.publish(self._manifest(save, plan, [mine, *others]), save.begun, save.fresh)
            except HoldfastTrainError:
                self._checkpoints.discard(save.name)
                if save.fresh is not None:
                    self._checkpoints.discard(save.fresh)
                raise
        key = save.name.fragment_key(self._rank)
        try:
            mine = self._write(save, plan, arriving)
        except StorageError as error:
            # First the parts, because a full volume may have no room for the fragment; rank 0 deletes what stays.
            for name in filter(None, (save.name, save.fresh)):
                with contextlib.suppress(StorageError):
                    self._storage.delete(self._storage.keys(name.part_prefix(self._rank)))
            with contextlib.suppress(StorageError):  # without it rank 0 waits until its time is up
                self._storage.put(key, Fragment(self._rank, failed=str(error)).encode())
            raise
        finally:
            self._heartbeat.end(save.name)
        self._storage.put(key, mine.encode())
        return None

    def _write(self, save: Save, plan: Plan, arriving: ArrivingBytes) -> Fragment:
        """Upload all parts, each as soon as its bytes are copied. The first error ends the upload."""
        pending: list[Future[Part]] = []
        sections: list[list[Future[Part]]] = [[], [], [], []]
        with ThreadPoolExecutor(THREADS, "holdfast-put") as pool:
            for section, start, stop in _pieces(plan):
                arriving.wait_for(stop)
                _raise_first(pending)
                name = save.fresh if section < 2 and save.fresh is not None else save.name
                key = name.part_key(self._rank, len(pending))
                pending.append(pool.submit(self._put, key, arriving.view[start:stop]))
                sections[section].append(pending[-1])
        parts = [tuple(future.result() for future in section) for section in sections]
        frozen_share, frozen_own = self._frozen_parts(save, plan, parts[0], parts[1])
        return Fragment(
            rank=self._rank,
            form=plan.form,
            frozen_share=frozen_share,
            frozen_own=frozen_own,
            share=parts[2],
            own=parts[3],
            tensors=plan.own_tensors,
            tree=save.own,
            sums=arriving.sums,
            objects={**tree_sums(save.tree, save.apart), **save.sums} if self._ranks > 1 else {},
        )

    def _frozen_parts(
        self, save: Save, plan: Plan, share: tuple[Part, ...], own: tuple[Part, ...]
    ) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """The parts of frozen tensors: `share` and `own`, just written, or those that an earlier save has written."""
        if not plan.keeps:
            if save.fresh is not None:
                self._frozen = _FrozenParts(save.fresh, share, own)
            return share, own
        kept = self._frozen
        if kept is None or kept.name != save.kept:
            raise WriterLostError(
                f"step {save.step} is not saved: the writer process that uploaded the frozen parameters has ended"
            )
        return kept.share, kept.own

    def _put(self, key: str, piece: memoryview) -> Part:
        sums = checksums.chunk_sums(piece)  # before the upload: damage in transit cannot pass
        self._storage.write(key, piece, sums=sums, rate=self._rate)
        return Part(key, len(piece), checksums.CHUNK_BYTES, sums)

    def _wait_for_fragments(
        self, save: Save, plan: Plan, arriving: ArrivingBytes, mine: Fragment
    ) -> Iterator[Fragment]:
        """The fragments of the other ranks, in order. StorageUnreachableError names the first that is missing.

        StateError if a rank has other tensors than rank 0, RanksDifferError if it has other values.
        """
        alike = [entry.name for entry in plan.common]
        named, draw = frozenset(names(save.tree)), draw_of(save.name)
        now = time.monotonic()
        latest, deadline = now + save.at_most, now + FRAGMENT_SECONDS
        orphaned = 2 * (now - save.begun) + ORPHAN_SECONDS

        def wait(rank: int) -> Fragment:
            nonlocal deadline
            written = 0
            while (found := self._fragment(save, rank)) is None:
                if (now := time.monotonic()) > min(latest, arriving.ended_at + orphaned):
                    raise StorageUnreachableError(f"rank {rank} has not written its part of step {save.step} in time")
                if now > deadline:
                    before, written = written, len(self._storage.keys(save.name.part_prefix(rank)))
                    if written == before:
                        raise StorageUnreachableError(
                            f"rank {rank} has written nothing for step {save.step} in {FRAGMENT_SECONDS:.0f} s"
                        )
                    deadline = now + FRAGMENT_SECONDS
                time.sleep(FRAGMENT_EVERY)
            return found

        for rank, fragment in enumerate(self._in_order(save, wait), 1):
            if wrong := _difference(fragment, plan, named):
                raise StateError(
                    f"step {save.step} cannot be saved: rank {rank} has {wrong}. The objects given to Run must be the "
                    f"same on all ranks, or sharded (DTensor); pass objects that differ as per_rank"
                )
            if what := difference((mine.objects, mine.sums), (fragment.objects, fragment.sums), alike, draw):
                raise RanksDifferError(
                    f"step {save.step} is not saved: rank {rank} has other values of {what!r} than rank 0", what
                )
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
        """What `rank` has written, None if it has not finished. StorageUnreachableError if it could not write it."""
        try:
            fragment = Fragment.decode(self._storage.get(save.name.fragment_key(rank)))
        except KeyMissingError:
            return None
        if fragment.failed:
            raise StorageUnreachableError(
                f"rank {rank} could not write its part of step {save.step}: {fragment.failed}"
            )
        return fragment

    def _manifest(self, save: Save, plan: Plan, fragments: list[Fragment]) -> Manifest:
        common = tuple(part for f in fragments for part in f.frozen_share)
        common += tuple(part for f in fragments for part in f.share)
        begin = sum(part.size for part in common)
        begins = []
        for fragment in fragments:
            begins.append(begin)
            begin += sum(part.size for part in (*fragment.frozen_own, *fragment.own))
        own = merge_entries([(f.tensors, at) for f, at in zip(fragments, begins, strict=True)])
        return Manifest(
            name=save.name,
            step=save.step,
            attempt=self._checkpoints.identity.attempt,
            job_uid=self._checkpoints.identity.job_uid,
            at=now(),
            versions=save.versions,
            program=save.program,
            metrics=save.metrics,
            parts=common + tuple(part for f in fragments for part in (*f.frozen_own, *f.own)),
            tensors=(*plan.common, *own),
            state=save.tree,
            ranks=tuple(fragment.tree for fragment in fragments),
        )


def _difference(fragment: Fragment, plan: Plan, named: Collection[str]) -> str:
    """How another rank's state differs from that of rank 0, whose tree names `named`; empty if it does not."""
    for tensor in fragment.tensors:
        if tensor.size and tensor.name not in named and not tensor.name.startswith("@"):  # @: per-rank state
            return f"{tensor.name!r}, which rank 0 does not have"
    return "" if fragment.form == plan.form else "other tensors than rank 0, or other types or shapes of them"


def _pieces(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """The parts into which the arena is cut: section, start and stop. No part has bytes of two sections."""
    length = manifest.PART_BYTES * max(1, -(-plan.size // (PARTS * manifest.PART_BYTES)))
    begin = 0
    for section, size in enumerate(plan.sections):
        for start in range(begin, begin + size, length):
            yield section, start, min(start + length, begin + size)
        begin += size


def _raise_first(pending: list[Future[Part]]) -> None:
    for future in pending:
        if future.done() and (error := future.exception()) is not None:
            raise error
