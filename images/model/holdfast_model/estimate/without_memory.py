"""All of torch's private API that estimates need: tensors without memory (FakeTensorMode), and books (MemTracker).

Both are torch's own and may change with any version, so only this module imports them. NotKnownError if they are
missing; a test compares what they say with what a real allocator does.

The device of the tensors is the CPU: torch refuses a backward pass on a fake GPU where there is no real one.
"""

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import torch
from torch import nn

from holdfast_model.estimate.document import Peak
from holdfast_model.estimate.errors import NotKnownError

TESTED: Final = "2.15"
HINTS: Final = {
    "DataDependentOutputException": "it needs the value of a tensor, and an estimate has only shapes: leave it out of "
    "the step (such as loss.item(), float(loss), an `if` on a tensor, a loss scaler)",
    "DynamicOutputShapeException": "the size of its result depends on values, and an estimate has only shapes: leave "
    "it out of the step (such as a boolean index, or nonzero), or use torch.where",
}
"""Name of an error of tensors without memory -> why it came, and what to do."""


class Books:
    """Counts, in a `with` block, what tensors occupy. Each block begins a new peak; tensors stay known between blocks.

    `know` says which tensors are those of a model, after it was built in a block.
    """

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def __enter__(self) -> Self:
        self._tracker.reset_mod_stats()
        self._tracker.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._tracker.__exit__(*error)

    def know(self, model: nn.Module) -> None:
        """The tensors of `model` are parameters and buffers."""
        self._tracker.track_external(model)

    def peak(self) -> Peak:
        """The peak of the newest block. NotKnownError if torch has other names for kinds of memory."""
        found = {device.type: snapshot for device, snapshot in self._tracker.get_tracker_snapshot("peak").items()}
        accelerators = [kind for kind in found if kind not in ("cpu", "meta")]
        newest = found.get((accelerators or ["cpu"])[0])
        if newest is None:
            return Peak(0, 0, 0, 0)
        named = {getattr(kind, "value", kind): size for kind, size in newest.items()}
        try:
            parameters, gradients = named["Parameter"] + named["Buffer"], named["Gradient"]
            optimizer, total = named["Optstate"], named["Total"]
        except KeyError as error:
            raise _not_known(f"no kind of memory is named {error}") from error
        return Peak(parameters, gradients, optimizer, total - parameters - gradients - optimizer)


@contextmanager
def without_memory() -> Iterator[Books]:
    """In this block, tensors have no memory and no values; `Books` count them. NotKnownError if torch cannot do it."""
    mode, tracker = _made()
    swap: Any = torch.utils.swap_tensors

    def swap_unremembered(first: Any, second: Any) -> None:
        """Of `module.to(...)`: torch refuses to swap tensors that the mode remembers."""
        mode.fake_tensor_converter.meta_converter.tensor_memo.clear()
        swap(first, second)

    log = logging.getLogger("torch._subclasses.fake_tensor")  # it writes the stack of an error that is raised anyway
    was_disabled, log.disabled = log.disabled, True
    torch.utils.swap_tensors = swap_unremembered
    try:
        with mode:
            yield Books(tracker)
    finally:
        torch.utils.swap_tensors = swap
        log.disabled = was_disabled


def _made() -> tuple[Any, Any]:
    try:
        fake = importlib.import_module("torch._subclasses.fake_tensor")
        books = importlib.import_module("torch.distributed._tools.mem_tracker")
        mode = fake.FakeTensorMode(allow_non_fake_inputs=True)
        mode.fake_tensor_converter.meta_converter.tensor_memo.clear()
        return mode, _tracker(books.MemTracker)
    except (ImportError, AttributeError, TypeError) as error:
        raise _not_known(str(error)) from error


def _not_known(why: str) -> NotKnownError:
    return NotKnownError(
        f"torch {torch.__version__} does not have what an estimate needs ({why}); it is tested with torch {TESTED}"
    )


def _tracker(base: Any) -> Any:
    """A MemTracker without its statistics of modules: with them, it refuses a module that is called twice in a step."""

    original = base._pre_fw_hook

    def pre_fw_hook(self: Any, module: nn.Module, inputs: Any) -> None:
        if module in self.memory_tracking and not self._mod_tracker.is_bw:
            del self.memory_tracking[module]
        original(self, module, inputs)

    tracker = type("Tracker", (base,), {"_pre_fw_hook": pre_fw_hook})()
    _ = tracker.memory_tracking, tracker._mod_tracker.is_bw  # AttributeError now, and not in a step
    return tracker
