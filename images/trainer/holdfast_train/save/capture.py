"""The copy of a state into an arena while training goes on.

What only a step of an optimizer changes (parameters and optimizer state) is copied during the next forward and backward
pass; the next step of the optimizer waits for the copy. Everything else may change at any moment, so it is copied at
once, while training waits.

Code may change parameters between two steps of the optimizer all the same. Version counters of torch show most such
changes. Others (`parameter.data.add_`, a NumPy view) are found in the host's memory: 64 bytes of every 256 KiB are
noted when the save begins, and compared with the copy. So a change is found even if it is undone before the copy ends.
Two changes are not found: one that leaves all noted bytes as they were, and one in the memory of a GPU.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast_train.format.sharding import storage_of
from holdfast_train.format.stateful import stepping_ones
from holdfast_train.format.tree import Leaf
from holdfast_train.graph_capture import allow_calls_beside_capture
from holdfast_train.save.arena import Arena
from holdfast_train.save.noted import noted
from holdfast_train.save.plan import Copy, Plan

MOST_NOTED: Final = 4096  # tensors; of more, some are noted
REPORT_BYTES: Final = 64 << 20  # bytes that are copied between two calls of `on_copied`


class Guard:
    """Finds what the optimizers among `objects` change, and makes their next step wait for a running copy."""

    def __init__(self, objects: Iterable[Any]) -> None:
        # The state of other optimizers is copied before a save returns.
        self._optimizers = stepping_ones(objects)
        self._hooks = [one.register_step_pre_hook(self._before_step) for one in self._optimizers]
        self._capture: Capture | None = None

    def storages(self) -> frozenset[int]:
        """Addresses of the memory that only steps of the optimizers change."""
        found: set[int] = set()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                found.update(storage_of(parameter) for parameter in group["params"])
            for state in optimizer.state.values():
                found.update(storage_of(value) for value in state.values() if hasattr(value, "untyped_storage"))
        return frozenset(found)

    def delay_steps(self, capture: "Capture") -> None:
        """Make the next step of an optimizer wait for `capture`."""
        self._capture = capture

    def close(self) -> None:
        """Remove the hooks from the optimizers."""
        for hook in self._hooks:
            hook.remove()
        self._capture = None

    def _before_step(self, *_: Any) -> None:
        if self._capture is not None and self._capture.before_change():
            self._capture = None


class Capture:
    """The copy of one state into `arena`.

    `on_copied` is called in a thread with the number of bytes that the arena has from its start; `on_failed` with the
    reason if the copy cannot be completed. The last call of `on_copied` may take long: steps do not wait for it.
    """

    def __init__(
        self,
        arena: Arena,
        plan: Plan,
        leaves: Sequence[Leaf],
        *,
        guarded: frozenset[int],
        on_copied: Callable[[int], object],
        on_failed: Callable[[str], None],
        is_last_call_long: bool = False,
    ) -> None:
        """Copy all but the memory at the `guarded` addresses before it returns."""
        self._arena = arena
        self._size = plan.size
        self._leaves = leaves
        self._on_copied, self._on_failed = on_copied, on_failed
        self._devices = _Devices.of(leaves)
        self._later: list[Copy] = []
        now: list[Copy] = []
        for copy in plan.copies:
            leaf = leaves[copy.leaf]
            safe = leaf.kind == "torch" and (leaf.value.data_ptr() in guarded or storage_of(leaf.value) in guarded)
            (self._later if safe else now).append(copy)
        # Copies from GPUs are put on their streams at once. The thread makes those from the host's memory.
        self._on_host = [copy for copy in self._later if not self._is_on_gpu(copy)]
        self._host_copied = threading.Event()
        plain = [copy for copy in self._on_host if leaves[copy.leaf].value.is_contiguous()]
        self._noted_copies = plain[:: -(-len(plain) // MOST_NOTED) or 1]
        self._noted = [noted(self._address(copy), copy.stop - copy.start) for copy in self._noted_copies]
        self._versions = self._count_changes()
        self._watch = threading.Lock()  # to count changes and to allow them is one act each, never in between
        self._may_change = self._changed = False
        self._waited = 0.0
        self._thread = threading.Thread(target=self._finish, name="holdfast-capture", daemon=True)
        try:
            self._begin(now)
        except BaseException:
            self._settle()
            raise
        # Arrays and byte strings are copied: columns of small values exist only for that, and may take much memory.
        self._leaves = [leaf if leaf.kind == "torch" else leaf._replace(value=None) for leaf in leaves]
        if not self._later and not is_last_call_long:
            self.wait()  # nothing is left to copy: `on_copied` is called before anything else can happen

    def before_change(self) -> bool:
        """Return True when training may change the guarded memory. GPUs wait for their own copies, not this thread.

        False if nothing can be waited for, because this thread captures a CUDA graph; that changes no memory.
        """
        if self._devices is not None and self._devices.is_capturing_graph:
            return False
        begun = time.monotonic()
        self._host_copied.wait()
        self._look_for_changes(then_allow=True)
        if self._devices is not None:
            self._devices.make_training_wait()
        self._waited = time.monotonic() - begun
        return True

    @property
    def waited(self) -> float:
        """Seconds for which training waited for the copy: this process, and the GPU that waited longest, until now."""
        return self._waited + (0.0 if self._devices is None else self._devices.seconds_waited())

    def wait(self) -> None:
        """Return when the copy is complete or has failed: then nothing copies into the arena any more."""
        if self._thread.is_alive():
            self._thread.join()

    def _begin(self, now: Sequence[Copy]) -> None:
        if self._devices is None:
            for copy in now:
                self._copy(copy)
        else:
            self._devices.begin(now, self._later, self._copy, is_on_gpu=self._is_on_gpu)
        try:
            self._thread.start()
        except RuntimeError:  # the container is at its limit of processes: training waits for the copy
            self._finish()

    def _finish(self) -> None:
        try:
            self._copy_rest()
        except (RuntimeError, OSError) as error:  # RuntimeError: from CUDA
            self._give_up(error)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._host_copied.set()

    def _give_up(self, error: BaseException) -> None:
        """Without this the writer would wait for the rest of the bytes, and keep the arena, for ever."""
        self._settle()
        self._on_failed(f"the state could not be copied: {type(error).__name__}: {error}")

    def _settle(self) -> None:
        """After an error: return when no GPU copies into the arena any more."""
        if self._devices is not None:
            self._devices.settle()

    def _copy_rest(self) -> None:
        if self._devices is not None:
            allow_calls_beside_capture()
            for copy in self._on_host:  # first: the next step of the optimizer waits for these on the host
                self._copy(copy)
            self._host_copied.set()
        reported = 0
        for copy in self._later:
            if copy.at - reported >= REPORT_BYTES:
                reported = copy.at
                if self._devices is not None:
                    self._devices.wait_for(copy)
                self._on_copied(reported)
            if self._devices is None:
                self._copy(copy)
        if self._devices is not None:
            self._devices.wait_for(None)
        self._look_for_changes(then_allow=True)
        self._host_copied.set()
        copied = [noted(self._arena.address + copy.at, copy.stop - copy.start) for copy in self._noted_copies]
        if self._changed or self._noted != copied:
            self._on_failed("code other than the optimizer changed a parameter while it was copied")
        else:
            self._on_copied(self._size)

    def _look_for_changes(self, *, then_allow: bool = False) -> None:
        with self._watch:
            if not self._may_change:
                self._changed = self._changed or self._versions != self._count_changes()
            self._may_change = self._may_change or then_allow

    def _count_changes(self) -> list[int]:
        """How often each guarded tensor was changed in place. Until the copy is complete, no count may change."""
        return [self._leaves[copy.leaf].value._version for copy in self._later]

    def _address(self, copy: Copy) -> int:
        return int(self._leaves[copy.leaf].value.data_ptr()) + copy.start

    def _is_on_gpu(self, copy: Copy) -> bool:
        leaf = self._leaves[copy.leaf]
        return leaf.kind == "torch" and bool(leaf.value.is_cuda)

    def _copy(self, copy: Copy) -> None:
        leaf, size = self._leaves[copy.leaf], copy.stop - copy.start
        value = leaf.value
        if leaf.kind == "bytes":
            self._arena.view[copy.at : copy.at + size] = memoryview(value)[copy.start : copy.stop]
        elif leaf.kind == "numpy":
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
    """Copies from GPUs, on a stream of each GPU beside the stream of training.

    A rank may use several GPUs, and the current one need not be among them: a copy runs on the current stream of the
    device that it reads.
    """

    def __init__(self, torch: Any, devices: Iterable[Any]) -> None:
        self._cuda = torch.cuda
        self._streams = {device: torch.cuda.Stream(device) for device in devices}
        self._marks: dict[int, list[Any]] = {}
        self._end: list[Any] = []
        self._waits: list[tuple[Any, Any, Any]] = []  # a GPU, and events before and after a wait of its training

    @classmethod
    def of(cls, leaves: Sequence[Leaf]) -> "_Devices | None":
        """The GPUs that `leaves` are on. None if there are none."""
        found = dict.fromkeys(leaf.value.device for leaf in leaves if leaf.kind == "torch" and leaf.value.is_cuda)
        return cls(sys.modules["torch"], found) if found else None

    def begin(
        self,
        now: Sequence[Copy],
        later: Sequence[Copy],
        copy_one: Callable[[Copy], None],
        *,
        is_on_gpu: Callable[[Copy], bool],
    ) -> None:
        """Start all copies from GPUs, and make those of `now` from the host. Training's streams wait for `now`."""
        for device, stream in self._streams.items():
            stream.wait_stream(self._cuda.current_stream(device))
        with contextlib.ExitStack() as stack:
            for stream in self._streams.values():
                stack.enter_context(self._cuda.stream(stream))
            for copy in now:
                copy_one(copy)
            first = self._record()
            at = 0
            for copy in later:
                if copy.at - at >= REPORT_BYTES:
                    at = copy.at
                    self._marks[copy.at] = self._record()
                if is_on_gpu(copy):
                    copy_one(copy)
            self._end = self._record()
        self._make_training_wait(first)

    @property
    def is_capturing_graph(self) -> bool:
        """True if this thread captures a CUDA graph: it may not wait for events from outside the graph."""
        return bool(self._cuda.is_current_stream_capturing())

    def seconds_waited(self) -> float:
        """How long the GPU that waited longest has waited, without waits that go on."""
        allow_calls_beside_capture()
        seconds: dict[Any, float] = {}
        for device, before, after in self._waits:
            if after.query():
                seconds[device] = seconds.get(device, 0.0) + before.elapsed_time(after) / 1000
        return max(seconds.values(), default=0.0)

    def make_training_wait(self) -> None:
        """Work that training puts on its streams from now on begins when all is copied."""
        self._make_training_wait(self._end)

    def wait_for(self, copy: Copy | None) -> None:
        """Return when everything before `copy` is copied; everything at all if `copy` is None."""
        for event in self._end if copy is None else self._marks[copy.at]:
            event.synchronize()

    def settle(self) -> None:
        """Return when all copies that have begun are complete, or have failed."""
        for stream in self._streams.values():
            with contextlib.suppress(RuntimeError):  # CUDA reports the error of a copy here once more
                stream.synchronize()

    def _record(self) -> list[Any]:
        return [stream.record_event() for stream in self._streams.values()]

    def _make_training_wait(self, events: Iterable[Any]) -> None:
        for device, event in zip(self._streams, events, strict=True):
            stream = self._cuda.current_stream(device)
            before, after = (self._cuda.Event(enable_timing=True) for _ in range(2))
            before.record(stream)
            stream.wait_event(event)
            after.record(stream)
            self._waits.append((device, before, after))
