"""Copying a state into an arena while training goes on.

What an optimizer of ours changes (parameters, and its own state) is copied beside the next forward and backward pass;
the optimizer's next step waits for that. Everything else may change at any moment, so it is copied at once.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast_train.format.tree import Leaf
from holdfast_train.save.arena import Arena
from holdfast_train.save.plan import Copy, Plan

__all__ = ["Capture", "Guard"]

TELL_BYTES: Final = 64 << 20  # how much is copied before somebody hears of it


class Guard:
    """Knows what the optimizers among `objects` change, and makes their steps wait for a copy that is on its way."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._optimizers = [thing for thing in objects if hasattr(thing, "register_step_pre_hook")]
        self._hooks = [thing.register_step_pre_hook(self._before_step) for thing in self._optimizers]
        self._capture: Capture | None = None

    def storages(self) -> frozenset[int]:
        """Addresses of the memory that only a step of the optimizers changes."""
        found: set[int] = set()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                found.update(_storage(parameter) for parameter in group["params"])
            for state in optimizer.state.values():
                found.update(_storage(value) for value in state.values() if hasattr(value, "untyped_storage"))
        return frozenset(found)

    def hold(self, capture: "Capture") -> None:
        """The next step of an optimizer waits for `capture`."""
        self._capture = capture

    def close(self) -> None:
        """Let the optimizers go."""
        for hook in self._hooks:
            hook.remove()
        self._capture = None

    def _before_step(self, *_: Any) -> None:
        if self._capture is not None:
            self._capture.before_change()
            self._capture = None


class Capture:
    """One state on its way into `arena`.

    `copied` hears, in a thread, how many bytes from the arena's start are there; `failed` hears why it will not be all.
    """

    def __init__(
        self,
        arena: Arena,
        plan: Plan,
        leaves: Sequence[Leaf],
        *,
        guarded: frozenset[int],
        copied: Callable[[int], None],
        failed: Callable[[str], None],
    ) -> None:
        """Copies all but what lies in the `guarded` storages before it returns."""
        self._arena = arena
        self._size = plan.size
        self._leaves = leaves
        self._copied, self._failed = copied, failed
        self._devices = _Devices.of(leaves)
        self._later: list[Copy] = []
        now: list[Copy] = []
        for copy in plan.copies:
            leaf = leaves[copy.leaf]
            safe = leaf.kind == "torch" and (leaf.value.data_ptr() in guarded or _storage(leaf.value) in guarded)
            (self._later if safe else now).append(copy)
        self._versions = self._count_changes()
        self._may_change = self._changed = False
        self.waited = 0.0  # seconds for which training stood still
        if self._devices is None:
            for copy in now:
                self._copy(copy)
        else:
            self._devices.begin(now, self._later, self._copy)
        self._thread = threading.Thread(target=self._finish, name="holdfast-capture", daemon=True)
        self._thread.start()
        if not self._later:
            self._thread.join()  # nothing is left to be copied: it is told before anything else can happen

    def before_change(self) -> None:
        """What training is about to change is safe on return; with CUDA it is the GPU that waits, not this thread."""
        if self._devices is None:
            begun = time.monotonic()
            self._thread.join()
            self.waited = time.monotonic() - begun
            return
        self._look_for_changes()
        self._may_change = True
        self._devices.hold_training()

    def wait(self) -> None:
        """Return when all is copied, or will not be."""
        self._thread.join()

    def _finish(self) -> None:
        try:
            self._copy_rest()
        except (RuntimeError, OSError) as error:  # of CUDA
            self._failed(f"the state could not be copied: {error}")

    def _copy_rest(self) -> None:
        told = 0
        for copy in self._later:
            if copy.at - told >= TELL_BYTES:
                told = copy.at
                if self._devices is not None:
                    self._devices.wait_for(copy)
                self._copied(told)
            if self._devices is None:
                self._copy(copy)
        if self._devices is not None:
            self._devices.wait_for(None)
        self._look_for_changes()
        if self._changed:
            self._failed("a parameter was changed by something else than the optimizer while it was copied")
        else:
            self._copied(self._size)

    def _look_for_changes(self) -> None:
        if not self._may_change:
            self._changed = self._changed or self._versions != self._count_changes()

    def _count_changes(self) -> list[int]:
        """How often each guarded tensor was changed in place: nobody but the optimizer may do that now."""
        return [self._leaves[copy.leaf].value._version for copy in self._later]

    def _copy(self, copy: Copy) -> None:
        leaf, size = self._leaves[copy.leaf], copy.stop - copy.start
        value = leaf.value
        if leaf.kind == "numpy":
            self._arena.copy_from(copy.at, value.ctypes.data + copy.start, size)
        elif value.device.type == "cpu" and value.is_contiguous():
            self._arena.copy_from(copy.at, value.data_ptr() + copy.start, size)
        elif size == leaf.size:
            self._arena.tensor(copy.at, value.dtype, tuple(value.shape)).copy_(value, non_blocking=True)
        else:
            torch: Any = sys.modules["torch"]
            flat = value.contiguous().reshape(-1).view(torch.uint8)[copy.start : copy.stop]
            self._arena.tensor(copy.at, torch.uint8, (size,)).copy_(flat, non_blocking=True)


class _Devices:
    """Copies from GPUs, on a stream of each beside that of training.

    A rank may have several of them, and the current one need not be among them: a copy runs on the current stream of
    the device that it reads.
    """

    def __init__(self, torch: Any, devices: Iterable[Any]) -> None:
        self._cuda = torch.cuda
        self._streams = {device: torch.cuda.Stream(device) for device in devices}
        self._marks: dict[int, list[Any]] = {}
        self._end: list[Any] = []

    @classmethod
    def of(cls, leaves: Sequence[Leaf]) -> "_Devices | None":
        """None if no leaf is on a GPU."""
        found = dict.fromkeys(leaf.value.device for leaf in leaves if leaf.kind == "torch" and leaf.value.is_cuda)
        return cls(sys.modules["torch"], found) if found else None

    def begin(self, now: Sequence[Copy], later: Sequence[Copy], copy_one: Callable[[Copy], None]) -> None:
        """Start all copies; training's stream waits for those of `now`."""
        for device, stream in self._streams.items():
            stream.wait_stream(self._cuda.current_stream(device))
        with contextlib.ExitStack() as ours:
            for stream in self._streams.values():
                ours.enter_context(self._cuda.stream(stream))
            for copy in now:
                copy_one(copy)
            first = self._record()
            at = 0
            for copy in later:
                if copy.at - at >= TELL_BYTES:
                    at = copy.at
                    self._marks[copy.at] = self._record()
                copy_one(copy)
            self._end = self._record()
        self._hold(first)

    def hold_training(self) -> None:
        """What training's streams are given from now on begins when all is copied."""
        self._hold(self._end)

    def wait_for(self, copy: Copy | None) -> None:
        """Return when everything before `copy` (None: everything) is copied."""
        for event in self._end if copy is None else self._marks[copy.at]:
            event.synchronize()

    def _record(self) -> list[Any]:
        return [stream.record_event() for stream in self._streams.values()]

    def _hold(self, events: Iterable[Any]) -> None:
        for device, event in zip(self._streams, events, strict=True):
            self._cuda.current_stream(device).wait_event(event)


def _storage(value: Any) -> int:
    """The address of the memory that a tensor is a view of."""
    local = value.to_local() if hasattr(value, "to_local") else value
    address: int = local.untyped_storage().data_ptr()
    return address
