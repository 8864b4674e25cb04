"""Saves in the background, as one rank runs them: one or two arenas, a capture, and the rank's writer process."""

import contextlib
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.data import rng
from holdfast_train.errors import HoldfastTrainError, StorageUnreachableError, WriterLostError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.program import Program
from holdfast_train.format.stateful import Stateful, unwrapped
from holdfast_train.format.tree import Tree, Walk
from holdfast_train.save.arena import Arena
from holdfast_train.save.capture import Capture, Guard
from holdfast_train.save.channel import Channel, ClosedError
from holdfast_train.save.in_flight_lock import InFlightLock
from holdfast_train.save.memory import available, fits
from holdfast_train.save.messages import Abandon, Copied, Failed, FreeArena, MapArena, Open, Save, ShortenDeadline
from holdfast_train.save.plan import Plan, make_plan
from holdfast_train.say import say

__all__ = ["Saver", "TrainingState", "start_writer"]

ARENAS: Final = 2
WAIT_SLICE: Final = 0.2  # seconds


@dataclass(frozen=True)
class TrainingState:
    """What a checkpoint contains: `objects`, the same on all ranks, `per_rank` objects, and the `program`'s facts."""

    objects: Mapping[str, Stateful]
    per_rank: Mapping[str, Stateful]
    program: Program = field(default_factory=Program)

    def walk(self, rank: int) -> tuple[Walk, int, Tree, Tree]:
        """The leaves, how many of them come from `objects`, the tree of `objects`, and the tree of `rank` alone."""
        walk = Walk()
        objects = {name: unwrapped(thing).state_dict() for name, thing in self.objects.items()}
        tree: Tree = {"$dict": [["objects", walk.tree(objects, "")]]}
        replicated = len(walk.leaves)
        own = {"rng": rng.capture(), "objects": {name: thing.state_dict() for name, thing in self.per_rank.items()}}
        return walk, replicated, tree, walk.tree(own, f"@{rank}")


class _Newest(NamedTuple):
    """The newest save: `begin` took `seconds`, for which training waited."""

    step: int
    seconds: float
    capture: Capture


class Saver:
    """Saves `state` while training goes on. Only one thread may use it.

    `opened` is sent to each writer. `on_result` is called in a thread with the result of each checkpoint, on rank 0.
    """

    def __init__(
        self, opened: Open, state: TrainingState, on_result: Callable[[Saved | HoldfastTrainError], None]
    ) -> None:
        self._open = opened
        self._state = state
        self._guard = Guard(state.objects.values())
        self._overlap = True  # copy while training goes on
        self._channel: Channel | None = None
        self._plan: Plan | None = None
        self._form: tuple[Any, ...] = ()
        self._sent_plan: Plan | None = None
        self._arenas: dict[int, Arena] = {}
        self._busy: dict[int, tuple[int, Channel]] = {}  # arena: its step, and the writer that uploads it
        self._on_result = on_result
        self._newest: _Newest | None = None
        self._changed = threading.Condition()
        self._lock = InFlightLock.new(opened.environment.verdict_folder)
        self._connect()

    @property
    def is_busy(self) -> bool:
        """True if a checkpoint is in flight."""
        with self._changed:
            return bool(self._busy)

    @property
    def can_begin(self) -> bool:
        """True if there is an arena for another checkpoint."""
        with self._changed:
            return self._has_room

    def prepare(self) -> None:
        """Allocate an arena in a thread, so that the first save is as fast as later ones.

        A program without torch has a small state: nothing is done for it.
        """
        if "torch" not in sys.modules:
            return
        walk, replicated, _, _ = self._state.walk(self._open.rank)
        arena = self._new_arena(0, self._plan_for(walk, replicated).size)
        threading.Thread(target=arena.populate, name="holdfast-arena", daemon=True).start()

    def begin(
        self,
        name: CheckpointName,
        step: int,
        *,
        patience: float,
        at_most: float = math.inf,
        metrics: Mapping[str, str] | None = None,
    ) -> None:
        """Copy the state as it is now; the writer uploads it and commits it as `name`.

        Waits only if no arena is free, and at most `at_most` seconds: then StorageUnreachableError. The storage may be
        silent for `patience` seconds. StateError if the state cannot be saved.
        """
        begun = time.monotonic()
        if self._newest is not None:
            # If its upload has failed, its arena is free although the capture may still copy into it.
            self._newest.capture.wait()
        if self._channel is None:
            self._connect()
        walk, replicated, tree, own = self._state.walk(self._open.rank)
        plan = self._plan_for(walk, replicated)
        number = self._reserve_arena(step, plan.size, at_most)
        program = self._state.program
        save = Save(
            name=name,
            step=step,
            arena=number,
            plan=None if plan is self._sent_plan else plan,
            tree=tree,
            own=own,
            versions=program.versions,
            program=program.words,
            metrics=metrics or {},
            begun=begun,
            patience=patience,
            at_most=at_most,
        )
        self._sent_plan = plan
        self._lock.take()
        self._send(save)
        capture = self._start_capture(name, number, plan, walk)
        self._newest = _Newest(step, time.monotonic() - begun, capture)

    def seconds_lost(self, step: int) -> float:
        """Seconds for which training waited for the checkpoint of `step`. 0 if it is not the newest."""
        if self._newest is None or self._newest.step != step:
            return 0.0
        return self._newest.seconds + self._newest.capture.waited

    def wait(self, left: Callable[[], float]) -> bool:
        """Wait until no checkpoint is in flight, or no seconds are `left`. False if one is still in flight.

        `left` is called again and again: a notice to leave may shorten the time.
        """
        deadline: float | None = None
        while True:
            seconds = left()
            end = time.monotonic() + seconds
            if deadline is None or end < deadline - WAIT_SLICE:
                deadline = end
                self._send(ShortenDeadline(seconds))
            with self._changed:
                if self._changed.wait_for(lambda: not self._busy, min(seconds, WAIT_SLICE)):
                    return True
            if seconds <= 0:
                return False

    def close(self) -> None:
        """Free the arenas, and let the writer end after it has finished what is in flight."""
        self._guard.close()
        if self._newest is not None:
            self._newest.capture.wait()
            self._newest = None
        if self._channel is not None:
            self._channel.finish()
        for arena in self._arenas.values():
            arena.close()
        self._arenas.clear()
        self._lock.close()

    def _start_capture(self, name: CheckpointName, number: int, plan: Plan, walk: Walk) -> Capture:
        capture = Capture(
            self._arenas[number],
            plan,
            walk.leaves,
            guarded=self._guard.storages() if self._overlap else frozenset(),
            on_copied=lambda size: self._send(Copied(name, size)),
            on_failed=lambda why: self._give_up(name, why),
        )
        self._guard.delay_steps(capture)
        return capture

    def _give_up(self, name: CheckpointName, why: str) -> None:
        self._overlap = False
        say(f"{why}: from now on training waits while its state is copied")
        self._send(Abandon(name, why))

    # Memory.

    def _plan_for(self, walk: Walk, replicated: int) -> Plan:
        """The plan of the previous save if only values have changed since, otherwise a new one."""
        form = tuple((leaf.name, leaf.dtype, leaf.shape, leaf.box) for leaf in walk.leaves)
        if self._plan is None or form != self._form:
            self._form, self._plan = form, make_plan(walk.leaves, replicated, self._open.rank, self._open.ranks)
        return self._plan

    def _reserve_arena(self, step: int, size: int, at_most: float) -> int:
        """The number of an arena that is busy with `step` from now on."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room, None if math.isinf(at_most) else at_most):
                raise StorageUnreachableError(f"step {step} is not saved: earlier checkpoints are still in flight")
            number = self._take_arena(size)
            channel = self._channel
            if channel is None:  # the writer has ended since: no message would ever free this arena
                raise WriterLostError(f"the writer process ended before it received step {step}")
            self._busy[number] = step, channel
        return number

    @property
    def _has_room(self) -> bool:
        if len(self._busy) < len(self._arenas) or not self._arenas:
            return True
        return len(self._arenas) < ARENAS and fits(max(arena.size for arena in self._arenas.values()))

    def _take_arena(self, size: int) -> int:
        free = [number for number in self._arenas if number not in self._busy]
        for number in free:
            if self._arenas[number].size >= size:
                return number
        number = free[0] if free else len(self._arenas)
        self._new_arena(number, size)
        return number

    def _new_arena(self, number: int, size: int) -> Arena:
        if not fits(size):
            say(
                f"a copy of the state takes {size / 2**30:.1f} GiB, and {available() / 2**30:.1f} GiB of memory are "
                f"left; give the trainer more (spec.trainer.resources.memory), or it may be killed"
            )
        if number in self._arenas:
            self._arenas[number].close()
        arena = Arena(size)
        arena.pin()
        self._arenas[number] = arena
        self._send(MapArena(number, size), [arena.descriptor])
        return arena

    # The writer.

    def _connect(self) -> None:
        self._channel = start_writer(self._lock)
        self._sent_plan = None
        self._send(self._open)
        for number, arena in self._arenas.items():
            self._send(MapArena(number, arena.size), [arena.descriptor])
        threading.Thread(target=self._listen, args=(self._channel,), name="holdfast-saver", daemon=True).start()

    def _send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        channel = self._channel
        if channel is not None:
            with contextlib.suppress(ClosedError):  # `_listen` gets it too, and handles it
                channel.send(message, descriptors)

    def _listen(self, channel: Channel) -> None:
        try:
            while True:
                message, _ = channel.receive()
                if isinstance(message, FreeArena):
                    with self._changed:
                        self._busy.pop(message.arena, None)
                        self._changed.notify_all()
                elif isinstance(message, Saved | Failed) and self._open.rank == 0:
                    self._on_result(message if isinstance(message, Saved) else message.to_error())
        except ClosedError:
            self._forget_writer(channel)

    def _forget_writer(self, channel: Channel) -> None:
        """Free the arenas that the writer behind `channel` had, and report their checkpoints as lost."""
        channel.close()
        with self._changed:
            if self._channel is channel:
                self._channel = None
            lost = {number: step for number, (step, its) in self._busy.items() if its is channel}
        if lost and self._open.rank == 0:
            steps = ", ".join(map(str, sorted(lost.values())))
            self._on_result(WriterLostError(f"the writer process ended before step {steps} was committed"))
        with self._changed:
            for number in lost:
                del self._busy[number]
            self._changed.notify_all()


def start_writer(lock: InFlightLock) -> Channel:
    """Start a writer process, in its own session: signals to the trainer's process group do not reach it.

    WriterLostError if it cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "holdfast_train.save.writer", str(theirs.fileno()), str(lock.descriptor)]
        descriptors = [theirs.fileno(), lock.descriptor]
        try:
            process = subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            ours.close()
            raise WriterLostError(
                f"the process that writes checkpoints cannot be started: {error}; is the container at its limit of "
                f"processes or memory?"
            ) from error
    # Without a wait the ended process would stay in the process table.
    threading.Thread(target=process.wait, name="holdfast-writer", daemon=True).start()
    return Channel(ours)
