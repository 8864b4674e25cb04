"""`OwnTime`: for how long a rank works in each step before it needs the other ranks."""

import sys
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple

LEAST_STEPS: Final = 5  # in a window: fewer say little
MOST_STEPS: Final = 2000  # the newest ones of a window
MOST_OPEN: Final = 64  # steps whose time a GPU has not told yet


class Typical(NamedTuple):
    """Medians of one window, in seconds: of the own time, and of whole steps."""

    own: float
    step: float


class OwnTime:
    """Measures from the beginning of a step until its first gradient is there: data, forward pass, a part of backward.

    DistributedDataParallel exchanges gradients from then on, so this time has no wait for other ranks. A model with
    sharded parameters (FSDP2) exchanges before its forward pass, so only what comes before that counts: the data. On a
    GPU, events in its stream are the clock, and are read later: training never waits for them.
    Programs that exchange something earlier in the step, and other devices, are not measured.
    """

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._clock: _HostClock | _GpuClock | None = None
        self._is_open = False
        self._begun = 0.0
        self._steps: deque[float] = deque(maxlen=MOST_STEPS)

    def watch(self, objects: Iterable[Any], *, on_gpus: bool = True) -> bool:
        """Measure the models among `objects`; without one, nothing. `on_gpus`: those on GPUs too.

        False if a model is left out because it is on a GPU.
        """
        is_whole = True
        torch: Any = sys.modules.get("torch")
        models = [] if torch is None else [thing for thing in objects if isinstance(thing, torch.nn.Module)]
        for model in models:
            last = [None, *(one for one in model.parameters() if one.requires_grad)][-1]
            if last is None or last.device.type not in ("cpu", "cuda"):
                continue
            if last.is_cuda and not on_gpus:
                is_whole = False
                continue
            self._clock = self._clock or (_GpuClock(torch, last.device) if last.is_cuda else _HostClock())
            self._hooks.append(_hook(model, last, _FirstExchange(self._end)))
        return is_whole

    def begin(self) -> None:
        """A step begins. It may begin once more, if something was done after the end of the one before."""
        clock = self._clock
        if clock is None:
            return
        now = perf_counter()
        if not self._is_open and self._begun:
            self._steps.append(now - self._begun)
        if not self._is_open or not self._begun:
            self._begun = now
        self._is_open = clock.begin()

    def take(self) -> Typical | None:
        """The medians since the last call that has returned some; None if too few steps were taken. Any thread may
        call it.
        """
        clock = self._clock
        if clock is None or min(len(clock.found), len(self._steps)) < LEAST_STEPS:
            return None
        own, clock.found = clock.found, deque(maxlen=MOST_STEPS)
        steps, self._steps = self._steps, deque(maxlen=MOST_STEPS)
        return Typical(median(list(own)), median(list(steps)))

    def close(self) -> None:
        """Measure no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._clock, self._is_open = [], None, False

    def _end(self) -> None:
        clock = self._clock
        if self._is_open and clock is not None:
            self._is_open = False
            clock.end()


class _FirstExchange:
    """Tells that a rank needs the others from now on. That of a copied or pickled model tells nothing."""

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        self._tell = tell

    def __call__(self, *_: Any) -> None:
        self._tell()

    def __reduce__(self) -> tuple[type["_FirstExchange"], tuple[()]]:
        return _FirstExchange, ()


def _hook(model: Any, last: Any, function: Callable[..., None]) -> Any:
    """Call `function` when the first gradient is there. The last parameter has it: backward begins at the end."""
    if hasattr(last, "to_local"):  # a DTensor
        return model.register_forward_pre_hook(function, prepend=True)
    return last.register_post_accumulate_grad_hook(function)


class _HostClock:
    def __init__(self) -> None:
        self.found: deque[float] = deque(maxlen=MOST_STEPS)
        self._begun = 0.0

    def begin(self) -> bool:
        self._begun = perf_counter()
        return True

    def end(self) -> None:
        self.found.append(perf_counter() - self._begun)


class _GpuClock:
    """Events in the stream of a GPU, two for each step, which are used again."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.found: deque[float] = deque(maxlen=MOST_STEPS)
        self._cuda = torch.cuda
        self._device = device
        self._free: list[tuple[Any, Any]] = []
        self._begun: tuple[Any, Any] | None = None
        self._open: list[tuple[Any, Any]] = []

    def begin(self) -> bool:
        """False if a step cannot be measured: the GPU is far behind, or its work is captured into a graph."""
        while self._open and self._open[0][1].query():
            pair = self._open.pop(0)
            self.found.append(pair[0].elapsed_time(pair[1]) / 1000)
            self._free.append(pair)
        if len(self._open) >= MOST_OPEN or self._cuda.is_current_stream_capturing():
            return False
        if self._begun is None:
            event = self._cuda.Event
            self._begun = self._free.pop() if self._free else (event(enable_timing=True), event(enable_timing=True))
        self._begun[0].record(self._cuda.current_stream(self._device))
        return True

    def end(self) -> None:
        if self._begun is None or self._cuda.is_current_stream_capturing():
            return
        self._begun[1].record(self._cuda.current_stream(self._device))
        self._open.append(self._begun)
        self._begun = None
