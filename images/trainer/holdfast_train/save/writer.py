"""The writer: a process beside each rank that uploads checkpoints and commits them while training goes on.

It imports neither torch nor CUDA, so it starts quickly and holds no GPU. It ends when its trainer has ended, but not
before it has finished a checkpoint that was copied whole.
"""

import math
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Sequence

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.retention import keep_of
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.save.arena import Arena
from holdfast_train.save.arriving import Source
from holdfast_train.save.channel import Channel, ClosedError
from holdfast_train.save.in_flight_lock import Lock
from holdfast_train.save.messages import Abandon, Copied, Failed, Free, Hurry, Map, Open, Save
from holdfast_train.save.plan import Plan
from holdfast_train.save.upload import Upload
from holdfast_train.say import say
from holdfast_train.storage.opening import open_patient
from holdfast_train.storage.rate_limit import Rate

__all__ = ["Writer", "main"]

NICENESS = 10  # training comes first where cores are few
BURST_BYTES = 1 << 20


class Writer:
    """Serves one trainer over `channel` until that closes."""

    def __init__(self, channel: Channel, opened: Open, lock: Lock) -> None:
        environment = opened.environment
        self._channel = channel
        self._storage = open_patient(environment, environment.checkpoint_uri or "")
        self._checkpoints = Checkpoints(self._storage, environment.identity, keep_of(environment), say)
        self._checkpoints.go_on(opened.fence)
        self._rate, self._limit = Rate(environment.upload_rate, BURST_BYTES), environment.upload_rate
        self._upload = Upload(self._checkpoints, self._storage, opened.rank, opened.ranks, self._rate)
        self._jobs: queue.SimpleQueue[tuple[Save, Plan, Source] | None] = queue.SimpleQueue()
        self._sources: dict[str, Source] = {}
        self._arenas: dict[int, Arena] = {}
        self._plan: Plan | None = None
        self._leaves = False  # is the trainer about to be ended?
        self._lock = lock

    def serve(self) -> None:
        """Do what the trainer says until it closes the channel, or ends; then finish what was copied whole."""
        worker = threading.Thread(target=self._work, name="holdfast-commit")
        worker.start()
        try:
            while True:
                self._on(*self._channel.receive())
        except ClosedError:
            pass
        except BaseException:
            self._channel.close()  # nobody hears the trainer any more: it starts another writer
            raise
        finally:
            for source in list(self._sources.values()):
                source.end()
            self._jobs.put(None)
            worker.join()

    def _on(self, message: object, descriptors: Sequence[int]) -> None:
        match message:
            case Map(arena=number, size=size):
                arena = self._arenas[number] = Arena(size, descriptors[0])
                arena.close_descriptor()
                threading.Thread(target=arena.populate, name="holdfast-arena", daemon=True).start()
            case Save() as save:
                self._rate.limit = self._limit
                self._plan = save.plan or self._plan
                assert self._plan is not None
                source = self._sources[save.name] = Source(self._arenas[save.arena].view[: self._plan.size])
                self._lock.take()
                self._jobs.put((save, self._plan, source))
            case Copied(name=name, size=size):
                if (known := self._sources.get(name)) is not None:  # else its upload has failed already
                    known.has(size)
            case Abandon(name=name, why=why):
                if (known := self._sources.get(name)) is not None:
                    known.abandon(why)
            case Hurry(at_most=seconds):
                self._leaves = self._leaves or math.isfinite(seconds)
                self._rate.limit = None
                self._storage.hurry(seconds)

    def _work(self) -> None:
        try:
            self._do_jobs()
        except BaseException:
            self._channel.finish()  # nobody would answer any more: the trainer starts another writer
            raise

    def _do_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            save, plan, source = job
            with self._storage.within(save.patience, at_most=save.at_most):
                self._tell(self._answer(save, plan, source))
                del self._sources[save.name]
                self._tell(Free(save.arena))
                # Thousands of objects may have to go. Whoever has to leave does not wait for that.
                self._checkpoints.sweep(stop=lambda: self._leaves)
            self._lock.give_back()

    def _answer(self, save: Save, plan: Plan, source: Source) -> Saved | Failed | None:
        try:
            return self._upload.run(save, plan, source)
        except HoldfastTrainError as error:
            return Failed.by(save.step, error)

    def _tell(self, message: object) -> None:
        try:
            self._channel.send(message)
        except ClosedError:  # the trainer has ended: nobody has to know
            return


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the trainer at the other end of the socket, whose descriptor is the first argument; the lock's is next."""
    descriptor, lock = map(int, argv if argv is not None else sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the trainer, which says what is to be done about it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        opened, _ = channel.receive()
    except ClosedError:
        return 0
    Writer(channel, opened, Lock(lock)).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
