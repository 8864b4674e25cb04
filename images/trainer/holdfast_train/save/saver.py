"""Saving in the background, as a rank sees it: an arena or two, a capture on its way, and a writer beside us."""

import contextlib
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.data import rng
from holdfast_train.errors import HoldfastTrainError, StorageUnreachableError, WriterLostError
from holdfast_train.format.program import Program
from holdfast_train.format.stateful import Stateful, unwrapped
from holdfast_train.format.tree import Tree, Walk
from holdfast_train.save.arena import Arena
from holdfast_train.save.capture import Capture, Guard
from holdfast_train.save.channel import Channel, ClosedError
from holdfast_train.save.in_flight_lock import Lock
from holdfast_train.save.memory import available, fits
from holdfast_train.save.messages import Abandon, Copied, Failed, Free, Hurry, Map, Open, Save, error_of
from holdfast_train.save.plan import Plan, plan
from holdfast_train.say import say

__all__ = ["Content", "Saver", "start_writer"]

ARENAS: Final = 2
WAIT_SLICE: Final = 0.2  # seconds


@dataclass(frozen=True)
class Content:
    """What a checkpoint holds: `objects`, alike on all ranks, and what `per_rank` differs; and what `program` it is."""

    objects: Mapping[str, Stateful]
    per_rank: Mapping[str, Stateful]
    program: Program = field(default_factory=Program)

    def walk(self, rank: int) -> tuple[Walk, int, Tree, Tree]:
        """The leaves, how many of them are of the objects, and the trees of those and of what `rank` has alone."""
        walk = Walk()
        objects = {name: unwrapped(thing).state_dict() for name, thing in self.objects.items()}
        tree: Tree = {"$dict": [["objects", walk.tree(objects, "")]]}
        alike = len(walk.leaves)
        mine = {"rng": rng.capture(), "objects": {name: thing.state_dict() for name, thing in self.per_rank.items()}}
        return walk, alike, tree, walk.tree(mine, f"@{rank}")


class Saver:
    """Saves `content` without keeping training waiting. Not for several threads at once.

    `opened` is for the writer. `tell` hears in a thread what came of each checkpoint; on ranks other than 0, nothing.
    """

    def __init__(self, opened: Open, content: Content, tell: Callable[[Saved | HoldfastTrainError], None]) -> None:
        self._open = opened
        self._content = content
        self._guard = Guard(content.objects.values())
        self._overlap = True
        self._channel: Channel | None = None
        self._plan: Plan | None = None
        self._form: tuple[Any, ...] = ()
        self._sent_plan: Plan | None = None
        self._arenas: dict[int, Arena] = {}
        self._busy: dict[int, tuple[int, Channel]] = {}  # arena: step, and to whose writer it was given
        self._tell = tell
        self._last: tuple[int, float, Capture] | None = None
        self._changed = threading.Condition()
        self._lock = Lock.new(opened.environment.verdict_folder)
        self._connect()

    @property
    def busy(self) -> bool:
        """Is a checkpoint on its way?"""
        with self._changed:
            return bool(self._busy)

    @property
    def can_begin(self) -> bool:
        """Is there an arena for another checkpoint?"""
        with self._changed:
            return self._has_room

    def prepare(self) -> None:
        """Get the memory now, in a thread, so that the first save is as fast as later ones. Not for what is small."""
        if "torch" not in sys.modules:
            return
        walk, alike, _, _ = self._content.walk(self._open.rank)
        arena = self._new_arena(0, self._planned(walk, alike).size)
        threading.Thread(target=arena.populate, name="holdfast-arena", daemon=True).start()

    def begin(
        self,
        name: str,
        step: int,
        *,
        patience: float,
        at_most: float = math.inf,
        metrics: Mapping[str, str] | None = None,
    ) -> None:
        """Copy the state as it is now, and have it uploaded and committed as `name`.

        Waits only if no arena is free, and at most `at_most` seconds: then StorageUnreachableError. For the times see
        `Patient.within`. StateError if the state cannot be saved.
        """
        begun = time.monotonic()
        if self._last is not None:
            # Its upload may have failed already: its arena is free then, though it may still be copied into.
            _, _, capture = self._last
            capture.wait()
        if self._channel is None:
            self._connect()
        walk, alike, tree, own = self._content.walk(self._open.rank)
        made = self._planned(walk, alike)
        with self._changed:
            patient = None if math.isinf(at_most) else at_most
            if not self._changed.wait_for(lambda: self._has_room, patient):
                raise StorageUnreachableError(f"step {step} is not saved: those before it are still on their way")
            number = self._take_arena(made.size)
            channel = self._channel
            if channel is None:  # just now: nobody would ever say that this one came to nothing
                raise WriterLostError(f"the writer process has ended before step {step} was given to it")
            self._busy[number] = step, channel
        fresh = made if made is not self._sent_plan else None
        self._sent_plan = made
        program = self._content.program
        save = Save(
            name=name,
            step=step,
            arena=number,
            plan=fresh,
            tree=tree,
            own=own,
            versions=program.versions,
            program=program.words,
            metrics=metrics or {},
            begun=begun,
            patience=patience,
            at_most=at_most,
        )
        self._lock.take()
        self._send(save)
        guarded = self._guard.storages() if self._overlap else frozenset()
        capture = Capture(
            self._arenas[number],
            made,
            walk.leaves,
            guarded=guarded,
            copied=lambda size: self._send(Copied(name, size)),
            failed=lambda why: self._give_up(name, why),
        )
        self._guard.hold(capture)
        self._last = (step, time.monotonic() - begun, capture)

    def lost(self, step: int) -> float:
        """Seconds for which training has stood still for the checkpoint of `step`, the newest or one before."""
        if self._last is None or self._last[0] != step:
            return 0.0
        return self._last[1] + self._last[2].waited

    def wait(self, left: Callable[[], float]) -> bool:
        """Return when nothing is on its way any more, or no seconds are `left`. False if something is.

        `left` is asked again and again: who was told to leave meanwhile has less time.
        """
        deadline: float | None = None
        while True:
            seconds = left()
            end = time.monotonic() + seconds
            if deadline is None or end < deadline - WAIT_SLICE:
                deadline = end
                self._send(Hurry(seconds))
            with self._changed:
                if self._changed.wait_for(lambda: not self._busy, min(seconds, WAIT_SLICE)):
                    return True
            if seconds <= 0:
                return False

    def close(self) -> None:
        """Let the writer end, once it has finished what is on its way, and give the arenas' memory back."""
        self._guard.close()
        if self._last is not None:
            self._last[2].wait()
            self._last = None
        if self._channel is not None:
            self._channel.finish()
        for arena in self._arenas.values():
            arena.close()
        self._arenas.clear()
        self._lock.close()

    # Memory.

    def _planned(self, walk: Walk, alike: int) -> Plan:
        """The plan of the save before, while nothing but values has changed."""
        form = tuple((leaf.name, leaf.dtype, leaf.shape, leaf.box) for leaf in walk.leaves)
        if self._plan is None or form != self._form:
            self._form, self._plan = form, plan(walk.leaves, alike, self._open.rank, self._open.ranks)
        return self._plan

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
                f"a copy of the state takes {size / 1e9:.1f} GB, and {available() / 1e9:.1f} GB of memory are left; "
                f"give the trainer more (spec.trainer.resources.memory), or it may be killed"
            )
        if number in self._arenas:
            self._arenas[number].close()
        arena = Arena(size)
        arena.pin()
        self._arenas[number] = arena
        self._send(Map(number, size), [arena.descriptor])
        return arena

    # The writer.

    def _connect(self) -> None:
        self._channel = start_writer(self._lock)
        self._sent_plan = None
        self._send(self._open)
        for number, arena in self._arenas.items():
            self._send(Map(number, arena.size), [arena.descriptor])
        threading.Thread(target=self._listen, args=(self._channel,), name="holdfast-saver", daemon=True).start()

    def _send(self, message: object, descriptors: tuple[int, ...] | list[int] = ()) -> None:
        channel = self._channel
        if channel is not None:
            with contextlib.suppress(ClosedError):  # `_listen` hears of it too, and says what it means
                channel.send(message, descriptors)

    def _listen(self, channel: Channel) -> None:
        try:
            while True:
                message, _ = channel.receive()
                if isinstance(message, Free):
                    with self._changed:
                        self._busy.pop(message.arena, None)
                        self._changed.notify_all()
                elif isinstance(message, Saved | Failed) and self._open.rank == 0:
                    self._tell(message if isinstance(message, Saved) else error_of(message))
        except ClosedError:
            self._lost(channel)

    def _lost(self, channel: Channel) -> None:
        channel.close()
        with self._changed:
            if self._channel is channel:
                self._channel = None
            lost = {number: step for number, (step, its) in self._busy.items() if its is channel}
        if lost and self._open.rank == 0:
            steps = ", ".join(map(str, sorted(lost.values())))
            self._tell(WriterLostError(f"the writer process has ended before step {steps} was committed"))
        with self._changed:
            for number in lost:
                del self._busy[number]
            self._changed.notify_all()

    def _give_up(self, name: str, why: str) -> None:
        self._overlap = False
        say(f"{why}: from now on training waits while its state is copied")
        self._send(Abandon(name, why))


def start_writer(lock: Lock) -> Channel:
    """A new writer process, in a session of its own: signals for the trainer's group are not for it.

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
                f"the process that writes checkpoints cannot be started: {error}; is there room for one more process?"
            ) from error
    # Somebody has to ask how it ended, or it stays in the process table.
    threading.Thread(target=process.wait, name="holdfast-writer", daemon=True).start()
    return Channel(ours)
