"""The writer: a process beside each rank that uploads and commits checkpoints while training goes on.

It imports neither torch nor CUDA, so it starts quickly and uses no GPU. It ends when its trainer has ended, but first
it finishes a checkpoint whose state was copied completely.

While the storage is unreachable it keeps the save that has failed, with its arena and with what is uploaded, and tries
it again: training does not have to stop for another copy of its state.
"""

import contextlib
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Tree, patched
from holdfast_train.keeper_memory import KeeperMemory
from holdfast_train.save.arena import Arena
from holdfast_train.save.channel import Channel, ClosedError
from holdfast_train.save.in_flight_lock import InFlightLock
from holdfast_train.save.job import ArrivingBytes, Job, Jobs
from holdfast_train.save.messages import (
    Abandon,
    Copied,
    Drop,
    Failed,
    Finished,
    Kept,
    MapArena,
    Open,
    Retrying,
    Save,
    ShortenDeadline,
    StorageSilence,
    UsePlan,
)
from holdfast_train.save.peer_copies import CopyReceiver, CopySender, PeerCopies
from holdfast_train.save.plan import Plan
from holdfast_train.save.upload import Upload
from holdfast_train.say import say
from holdfast_train.series.feed import AddRows
from holdfast_train.series.recorder import SeriesRecorder
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.rate_limit import RateLimit

NICENESS = 10  # training has priority if there are few cores
BURST_BYTES = 1 << 20
SERIES_SECONDS: Final = 5.0  # for the last rows of the history, when everything is committed
RETRY_PATIENCE: Final = 2.0  # seconds of silence that end a further try: the trainer may need the arena


class Writer:
    """Serves one trainer over `channel` until it closes."""

    def __init__(
        self, channel: Channel, opened: Open, lock: InFlightLock, listener: socket.socket | None = None
    ) -> None:
        environment = opened.environment
        self._timings = environment.timings
        self._channel = channel
        self._storage = open_retrying(
            environment, environment.settings.checkpoint_uri or "", lambda found: self._send(StorageSilence(found))
        )
        self._checkpoints = Checkpoints(self._storage, environment.identity, environment.settings.keep, say)
        self._checkpoints.use_fence(opened.fence)
        for name in opened.lost:
            self._checkpoints.discard(name, by_dead_writer=True)
        self._rate, self._limit = RateLimit(environment.upload_rate, BURST_BYTES), environment.upload_rate
        self._series = self._open_series(opened)
        self._upload = Upload(
            self._checkpoints,
            self._storage,
            opened.rank,
            opened.ranks,
            self._rate,
            is_leaving=lambda: self._is_leaving,
            series=self._series,
            timings=self._timings,
        )
        self._copies = self._open_copies(opened, listener)
        self._jobs = Jobs(self._timings)
        self._arriving: dict[CheckpointName, ArrivingBytes] = {}
        self._arenas: dict[int, Arena] = {}
        self._plan: Plan | None = None
        self._tree: Tree = None
        self._is_leaving = False  # True if the trainer has a deadline by which it must have ended
        self._lock = lock

    def serve(self) -> None:
        """Do what the trainer asks until it closes the channel or ends; then finish what was copied completely."""
        worker = threading.Thread(target=self._work, name="holdfast-commit")
        worker.start()
        try:
            while True:
                self._handle(*self._channel.receive())
        except ClosedError:
            pass
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            for arriving in list(self._arriving.values()):
                arriving.mark_trainer_ended()
            self._jobs.end()
            worker.join()
            self._end_series()
            if self._copies is not None:
                self._copies.end()

    def _open_series(self, opened: Open) -> SeriesRecorder | None:
        """What writes the history of the training. None on another rank than 0."""
        if opened.series is None:
            return None
        recorder = SeriesRecorder(self._storage.apart(), opened.series)
        try:
            recorder.start()
        except RuntimeError as error:  # the container is at its limit of processes
            say(f"the history of the training is not written: no thread can be started for it ({error})")
            return None
        return recorder

    def _end_series(self) -> None:
        if self._series is not None:
            self._lock.take()
            self._series.end(SERIES_SECONDS)
            self._lock.release()

    def _open_copies(self, opened: Open, listener: socket.socket | None) -> PeerCopies | None:
        """What looks after the copies in memory. None with one node: nobody keeps memory for another attempt."""
        if opened.environment.nodes == 1 or opened.ranks == 1:
            return None
        kept = KeeperMemory(opened.environment.keeper)
        sender = None
        try:
            if opened.links is not None and listener is not None:
                sender = CopySender(opened.rank, opened.links)
                CopyReceiver(listener, opened.links.token, kept)
            return PeerCopies(opened.rank, opened.environment.identity.attempt, kept, self._upload.note, sender)
        except RuntimeError as error:  # the container is at its limit of processes
            say(f"an attempt can go on only from what is committed: no thread looks after the copies ({error})")
            return None

    def _handle(self, message: object, descriptors: Sequence[int]) -> None:
        match message:
            case MapArena(arena=number, size=size):
                arena = self._arenas[number] = Arena(size, descriptors[0])
                arena.close_descriptor()
                with contextlib.suppress(RuntimeError):  # the container is at its limit of processes
                    threading.Thread(target=arena.populate, name="holdfast-arena", daemon=True).start()
            case UsePlan(plan=plan):
                self._plan = plan
            case Save() as save:
                self._rate.limit = self._limit
                self._plan = save.plan or self._plan
                assert self._plan is not None
                self._tree = patched(self._tree, save.tree) if save.is_change else save.tree
                save = replace(save, tree=self._tree, is_change=False)
                arriving = ArrivingBytes(self._arenas[save.arena].view[: self._plan.size])
                self._arriving[save.name] = arriving
                self._lock.take()
                self._upload.expect(save)
                job = Job(save, self._plan, arriving)
                self._jobs.add(job)
                if self._copies is not None:
                    self._copies.add(job)
            case AddRows(rows=rows):
                if self._series is not None:
                    self._series.add(rows)
            case Copied(name=name, size=size, sums=sums):
                if (known := self._arriving.get(name)) is not None:  # None if its upload has failed already
                    known.mark_ready(size, sums)
            case Abandon(name=name, why=why):
                if (known := self._arriving.get(name)) is not None:
                    known.abandon(why)
            case Drop(name=name):
                self._jobs.drop(name)
            case ShortenDeadline(at_most=seconds):
                self._shorten_deadline(seconds)

    def _shorten_deadline(self, seconds: float) -> None:
        if math.isfinite(seconds):
            self._is_leaving = True
            if self._series is not None:
                self._series.hurry()
        self._rate.limit = None
        self._storage.shorten_deadline(seconds)

    def _work(self) -> None:
        try:
            self._do_jobs()
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """One thread of this process has failed. Without its messages the trainer kills it, and starts another."""
        say(f"the writer process has failed: {type(error).__name__}: {error}")
        self._channel.finish()

    def _do_jobs(self) -> None:
        while (job := self._jobs.next()) is not None:
            save = job.save
            again = RETRY_PATIENCE if math.isinf(job.arriving.ended_at) else self._timings.save
            patience = min(save.patience, again) if job.tries else save.patience
            with self._storage.within(patience, at_most=save.at_most):
                result = self._try(job)
                if isinstance(result, Kept):
                    self._rate.limit = self._limit  # training goes on
                    self._jobs.keep(job)  # before the message, because the trainer may answer it at once
                    self._send(result)
                else:
                    self._finish(job, result)

    def _try(self, job: Job) -> Saved | Failed | Kept | Drop | None:
        dropped = Drop(job.save.name)
        if job.is_dropped:
            return dropped
        if job.tries:
            self._send(Retrying(job.save.name))
            self._upload.expect(job.save)
        try:
            return self._upload.run(job)
        except HoldfastTrainError as error:
            failed = Failed.of(job.save.step, error)
            return Kept(job.save.name, failed) if job.is_kept else dropped if job.is_dropped else failed

    def _finish(self, job: Job, result: Saved | Failed | Drop | None) -> None:
        self._jobs.finish(job)
        del self._arriving[job.save.name]
        self._send(Finished(job.save.name, None if isinstance(result, Drop) else result))
        if isinstance(result, Drop):  # after the answer, because training may wait for the arena
            self._upload.give_up(job, "a newer save has taken its place")
        # There may be thousands of objects to delete: a pod that has to leave does not wait for that.
        self._checkpoints.sweep(stop=lambda: self._is_leaving)
        self._lock.release()

    def _send(self, message: object) -> None:
        try:
            self._channel.send(message)
        except ClosedError:  # the trainer has ended
            return


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the trainer at the other end of a socket. The arguments are the descriptors of the socket and the lock."""
    descriptor, lock = map(int, argv if argv is not None else sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the trainer, which sends ShortenDeadline
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        opened, descriptors = channel.receive()
    except ClosedError:
        return 0
    listener = socket.socket(fileno=descriptors[0]) if descriptors else None
    in_flight = InFlightLock(lock)
    in_flight.note_writer()
    Writer(channel, opened, in_flight, listener).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
