"""Saves in the background, as one rank runs them: one or two arenas, a capture, and the rank's writer process."""

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakMethod

from holdfast_train.commitlog.checkpoints import Clean, Saved
from holdfast_train.errors import HoldfastTrainError, StateError, StorageUnreachableError, WriterLostError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.program import ENDED
from holdfast_train.format.rank_agreement import ALL_ALIKE, Facts, Sample, byte_sums, draw_of
from holdfast_train.format.tree import Tree, Walk, delta
from holdfast_train.memory import available, shortage
from holdfast_train.progress import Silence
from holdfast_train.save.arena import Arena, Arenas, Loan
from holdfast_train.save.capture import Capture, Guard
from holdfast_train.save.channel import ClosedError
from holdfast_train.save.first_form import FirstForm
from holdfast_train.save.frozen import Confirm, Frozen, FrozenNames
from holdfast_train.save.in_flight_lock import InFlightLock
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
from holdfast_train.save.plan import Plan, make_plan
from holdfast_train.save.training_state import TrainingState, no_garbage_collection
from holdfast_train.save.writer_process import WriterProcess, hear, start_writer
from holdfast_train.say import say

WAIT_SLICE: Final = 0.2  # seconds


class _Newest(NamedTuple):
    """The newest save: `begin` took `seconds`, for which training waited."""

    step: int
    seconds: float
    capture: Capture


class Saver:
    """Saves `state` while training goes on. Only one thread, of the process that made the Saver, may use it.

    A writer is replaced only after its process is reaped, so a step is never committed after a later one. For the
    memory see `Arenas`.

    `opened` is sent to each writer. On rank 0, `on_result` is called in a thread with the name and the result of each
    save, `on_kept` with the name and the reason when the writer keeps a save, to try it again, and `on_silence` with a
    silence of the storage, and with None at its end. `apart`: what is saved for each rank, the same on all ranks.
    `shortage`: why the copies of the state of all ranks of the pod may get the trainer killed; empty if there is memory
    for them.
    """

    def __init__(
        self,
        opened: Open,
        state: TrainingState,
        on_result: Callable[[CheckpointName, Saved | HoldfastTrainError], None],
        on_kept: Callable[[CheckpointName, HoldfastTrainError], None] = lambda *_: None,
        on_silence: Callable[[Silence | None], None] = lambda _: None,
    ) -> None:
        self._open, self._state = opened, state
        self._guard = Guard(state.objects.values())
        self._first_form = FirstForm(state.objects if opened.rank == 0 else {})
        self.apart = ALL_ALIKE
        self.frozen = Frozen(state.objects.values(), opened.environment.settings, opened.rank)
        self._overlap = True  # copy while training goes on
        self._is_mended = False
        self._writer: WriterProcess | None = None
        self._is_losing_writer = False  # the channel to the writer is closed, but its process is not reaped yet
        self._plan: Plan | None = None
        self._sent_plan: Plan | None = None
        self._form: tuple[Any, ...] = ()
        self._sent_tree: Tree = None
        environment = opened.environment
        self._arenas = Arenas.of_rank(environment, opened.rank, opened.ranks, keeps_old=opened.keeps_old)
        self._changed, self.shortage = self._arenas.changed, ""
        self._on_result, self._on_kept, self._on_silence = on_result, on_kept, on_silence
        self._newest: _Newest | None = None
        self._lock = InFlightLock.new(environment.verdict_folder)
        self._process = os.getpid()

    @property
    def is_busy(self) -> bool:
        """True if a checkpoint is in flight. One that its writer keeps is not."""
        with self._changed:
            return self._arenas.is_busy

    @property
    def can_begin(self) -> bool:
        """True if there is an arena for another checkpoint, or a kept one that gives way to it."""
        with self._changed:
            return not self._is_losing_writer and (self._arenas.has_free or bool(self._arenas.names("kept")))

    @property
    def has_most_copies(self) -> bool:
        """True if this rank has as many arenas as it may have, even if the memory has room for more."""
        with self._changed:
            return self._arenas.has_most

    def facts(self) -> tuple[Tree, Facts]:
        """The tree of the objects, and what this rank has of it, to be compared with other ranks."""
        with no_garbage_collection():
            return self._state.facts(self._open.rank, self._guard.storages())

    def prepare(self, free: int | None = None) -> None:
        """After the first step: start the writer, and allocate an arena in a thread, so that no save waits for them.

        `free`: bytes of memory that were left before any rank of the pod did so; None: those that are left now.
        """
        if self._writer is None:
            self._connect()
        if "torch" not in sys.modules:  # the state is small
            return
        with no_garbage_collection():
            walk, replicated, _, _ = self._state.walk(self._open.rank, self.apart)
            plan = self._plan_for(walk, replicated)
            self._first_form.tell_changes(walk.leaves)
            self.send(UsePlan(replace(plan, copies=())))
            self._sent_plan = plan
        self.shortage = shortage(plan.size * self._arenas.copies, available() if free is None else free)
        arena = self._new_arena(0, plan.size)
        try:
            threading.Thread(target=arena.populate, name="holdfast-arena", daemon=True).start()
        except RuntimeError:  # the container is at its limit of processes
            arena.populate()

    @no_garbage_collection()
    def begin(
        self,
        name: CheckpointName,
        step: int,
        *,
        patience: float,
        at_most: float = math.inf,
        metrics: Mapping[str, str] | None = None,
        clean: Clean | None = None,
        frozen: FrozenNames | None = None,
        waits: bool = False,
        last: bool = False,
    ) -> None:
        """Copy the state as it is now; the writer uploads it and commits it as `name`.

        Waits only if no arena is free, and at most `at_most` seconds: then StorageUnreachableError. The storage may be
        silent for `patience` seconds. Ranks agree on `frozen`; one rank alone needs none. `waits`: training stands
        until the commit, so nothing has to be put off. `last`: training ends with this checkpoint. StateError if the
        state cannot be saved. WriterLostError if no writer can be started.
        """
        begun = time.monotonic()
        identity = self._open.environment.identity
        self._check_process()
        self._wait_for_capture()
        walk, replicated, tree, own = self._state.walk(self._open.rank, self.apart)
        before, plan = self._plan, self._plan_for(walk, replicated)
        self._first_form.tell_changes(None if plan is before else walk.leaves)
        frozen = frozen or FrozenNames(CheckpointName.new(step, name.attempt), self.frozen.committed)
        kept, confirm = self.frozen.choose(plan, walk.leaves, frozen, waits=waits)
        if kept is not None:
            plan = plan.without_frozen
        number = self._reserve_arena(name, frozen.fresh, step, plan.size, at_most)
        is_change = self._sent_tree is not None and self._state.repeated_walk.is_again
        save = Save(
            name=name,
            step=step,
            arena=number,
            plan=None if plan is self._sent_plan else replace(plan, copies=()),
            fresh=frozen.fresh,
            kept=kept,
            tree=delta(self._sent_tree, tree) if is_change else tree,
            is_change=is_change,
            own=own,
            versions=self._state.program.versions,
            program={**self._state.program.words, **({ENDED: identity.job_uid} if last else {})},
            metrics=metrics or {},
            clean=clean,
            begun=begun,
            patience=patience,
            at_most=at_most,
            apart=self.apart,
            sums=byte_sums(walk.leaves[:replicated]) if self._open.ranks > 1 else {},
        )
        sample = Sample(plan.common_of(walk.leaves) if self._open.ranks > 1 else (), draw_of(name))
        self._sent_plan, self._sent_tree = plan, tree
        self._lock.take()
        self.send(save)
        try:
            capture = self._start_capture(save, plan, walk, partial(self._last_bytes, save, plan, sample, confirm))
        except BaseException as error:  # otherwise the writer would wait for the copy, and keep the arena, for ever
            self.send(Abandon(name, f"the copy of the state could not begin: {type(error).__name__}: {error}"))
            raise
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
                self.send(ShortenDeadline(seconds))
            with self._changed:
                if self._changed.wait_for(lambda: not self._arenas.is_busy, min(seconds, WAIT_SLICE)):
                    return True
            if seconds <= 0:
                return False

    def drop_kept(self) -> None:
        """Give up what the writer keeps to try it again. Without this, the writer tries it once more when we end."""
        with self._changed:
            for name in self._arenas.names("kept", "retrying"):
                self.send(Drop(name))

    def close(self, *, is_complete: bool = False) -> None:
        """Close the arenas, and let the writer end after it has finished what is in flight.

        `is_complete`: no attempt will train any more, so the launcher frees the arenas that it keeps.
        """
        self._guard.close()
        self._wait_for_capture()
        self._newest = None
        self._state.repeated_walk.forget()
        if (writer := self._writer) is not None:
            writer.channel.finish()
        self._arenas.close(is_complete=is_complete)
        self._lock.close()

    def _wait_for_capture(self) -> None:
        """If an upload has failed, its arena is free although the capture may still copy into it."""
        if self._newest is not None:
            self._newest.capture.wait()

    def _start_capture(self, save: Save, plan: Plan, walk: Walk, last: Callable[[], Copied | Abandon]) -> Capture:
        """`last` returns the message for the last bytes. It may take long if there are frozen ones."""
        capture = Capture(
            self._arenas.by_number[save.arena],
            plan,
            walk.leaves,
            guarded=self._guard.storages() if self._overlap else frozenset(),
            on_copied=lambda size: self.send(last() if size == plan.size else Copied(save.name, size)),
            on_failed=lambda why: self._give_up(save.name, why),
            is_last_call_long=plan.frozen > 0,
        )
        self._guard.delay_steps(capture)
        return capture

    def _last_bytes(self, save: Save, plan: Plan, sample: Sample, confirm: Confirm | None) -> Copied | Abandon:
        why = "" if confirm is None else confirm(self._arenas.by_number[save.arena])
        self._is_mended = self._is_mended or bool(why)
        return Abandon(save.name, why) if why else Copied(save.name, plan.size, sample.sums())

    def take_mended(self) -> bool:
        """True, once, if a save was given up because of code of the program, and the next one copies in a safer way."""
        is_mended, self._is_mended = self._is_mended, False
        return is_mended

    def _give_up(self, name: CheckpointName, why: str) -> None:
        self._is_mended, self._overlap = self._is_mended or self._overlap, False
        say(f"{why}: from now on training waits while its state is copied")
        self.send(Abandon(name, why))

    # Memory.

    def _plan_for(self, walk: Walk, replicated: int) -> Plan:
        """The plan of the previous save if only values have changed since, otherwise a new one."""
        frozen = self.frozen.leaves(walk.leaves)
        form = (replicated, frozen, *((leaf.name, leaf.dtype, leaf.shape, leaf.box) for leaf in walk.leaves))
        if self._plan is None or form != self._form:
            self._form = form
            self._plan = make_plan(walk.leaves, replicated, self._open.rank, self._open.ranks, frozen)
        return self._plan

    def _reserve_arena(self, name: CheckpointName, fresh: CheckpointName, step: int, size: int, at_most: float) -> int:
        """The number of an arena that belongs to the save `name` from now on."""
        end = time.monotonic() + at_most

        def wait_until(condition: Callable[[], bool]) -> None:
            left = None if math.isinf(at_most) else max(0.0, end - time.monotonic())
            if not self._changed.wait_for(lambda: condition() and not self._is_losing_writer, left):
                raise StorageUnreachableError(f"step {step} is not saved: earlier checkpoints are still in flight")

        with self._changed:
            wait_until(lambda: self._arenas.has_free or bool(self._arenas.names("kept", "retrying")))
            if not self._arenas.has_free:  # there is memory for one copy: the newer state is worth more
                self.drop_kept()
                wait_until(lambda: self._arenas.has_free)
            if self._writer is None:
                self._connect()
            number = self._arenas.take(size, self._larger_arena)
            if (writer := self._writer) is None:  # the writer has ended since: no message would ever free this arena
                raise WriterLostError(f"the writer process ended before it received step {step}")
            self._arenas.loans[number] = Loan(name, fresh, step, writer)
        return number

    def _larger_arena(self, number: int, size: int) -> Arena:
        self.shortage = shortage(size * self._arenas.copies, available())
        return self._new_arena(number, size)

    def _new_arena(self, number: int, size: int) -> Arena:
        arena = self._arenas.make(number, size)
        self.send(MapArena(number, size), [arena.descriptor])
        return arena

    # The writer.

    def _check_process(self) -> None:
        """StateError in a process that the program has forked: it shares the arenas with this one."""
        if os.getpid() != self._process:
            raise StateError(
                f"process {os.getpid()} was forked from the training process {self._process}; only the training "
                f"process can save"
            )

    def _connect(self) -> None:
        writer = start_writer(self._lock)
        with contextlib.suppress(ClosedError):  # as in `send`; here: no thread may send anything else first
            writer.channel.send(self._open, self._open.descriptors)
        self._writer = writer
        self._sent_plan, self._sent_tree = None, None
        for number, arena in self._arenas.by_number.items():
            self.send(MapArena(number, arena.size), [arena.descriptor])
        try:
            hear(writer, WeakMethod(self._handle), WeakMethod(self._forget_writer))
        except WriterLostError:
            self._writer = None
            raise

    def send(self, message: object, descriptors: Sequence[int] = ()) -> bool:
        """Send to the writer. False if there is none."""
        with contextlib.suppress(ClosedError):  # `hear` gets it too, and handles it
            if (writer := self._writer) is not None:
                writer.channel.send(message, descriptors)
                return True
        return False

    def _handle(self, writer: WriterProcess, message: object) -> None:
        is_first = self._open.rank == 0
        match message:
            case Finished(name=name, result=result):
                if result is not None and is_first:
                    self.frozen.record(result)
                    self._on_result(name, result.to_error() if isinstance(result, Failed) else result)
                if isinstance(result, Saved):
                    self.shortage = ""  # the memory was there
                self._arenas.free(name, writer)
            case Kept(name=name, why=why):
                if is_first:
                    self._on_kept(name, why.to_error())
                self._arenas.mark(name, writer, "kept")
            case Retrying(name=name):
                self._arenas.mark(name, writer, "retrying")
            case StorageSilence(silence=silence):
                if is_first:
                    self._on_silence(silence)

    def _forget_writer(self, writer: WriterProcess) -> None:
        """End `writer`, free the arenas that it had, and report their checkpoints as lost."""
        with self._changed:
            self._is_losing_writer = self._writer is writer
        self.frozen.forget()
        writer.channel.close()
        writer.end()
        with self._changed:
            if self._writer is writer:
                self._writer = None
            self._is_losing_writer = False
            lost = self._arenas.of(writer)
            names = (name for loan in lost for name in (loan.name, loan.fresh))
            self._open = replace(self._open, lost=(*self._open.lost, *names))
        try:
            if self._open.rank == 0:
                self._on_silence(None)  # it will not tell the end any more
            for loan in lost if self._open.rank == 0 else ():
                text = f"the writer process ended before step {loan.step} was committed"
                self._on_result(loan.name, WriterLostError(text))
        finally:
            self._arenas.free_all(writer)
