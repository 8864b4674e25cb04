"""`Progress`: what the training thread passes to the reporter."""

import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from holdfast_protocol.figures import UNKNOWN
from holdfast_protocol.report import LIBRARY, MAX_METRICS, Resumed, Saved, Sender, SlowRank, State
from holdfast_train.accelerator_memory import peak_memory
from holdfast_train.data_wait import DataShare
from holdfast_train.pulse import Pulse


class Silence(NamedTuple):
    """A storage that does not answer, since a time of time.monotonic(), and what the newest call got."""

    since: float
    why: str


class Progress:
    """The content of the next report. The training thread sets plain attributes; the reporter's threads read them."""

    def __init__(self) -> None:
        self.pulse = Pulse(None)  # of this rank: the launcher sees from it that training goes on
        self._state: State = "starting"
        self.step: int | None = None
        self.steps: int | None = None
        self.first_step: tuple[int, float] | None = None  # that this process trained, and when (time.monotonic)
        self.loss: Any = None
        self.samples: Any = 0.0
        self.metrics: Mapping[str, Any] = {}  # beside the loss; replaced, never changed, because other threads read it
        self.fenced = False
        self.resumed_from: Resumed | None = None
        self.checkpoint: Saved | None = None
        self.save_error: str | None = None  # one line; None after a save has succeeded again
        self.silences: Mapping[str, Silence] = {}  # by the process that waits; replaced, never changed
        self.sender: Sender = LIBRARY  # "Folder" in the writer of checkpoint.folder, which knows no steps
        self.slow_ranks: tuple[SlowRank, ...] = ()  # for the operator; empty if none is slow, or nothing is known
        self.data = DataShare()
        self.measured = UNKNOWN  # figures that are numbers already; replaced, never changed
        self.ranks_peak: int | None = None  # memory of an accelerator, in bytes, of the rank that had most
        self.memory_warning: str | None = None  # one line; None if a save fits into the container's memory

    @property
    def state(self) -> State:
        """What the program does, in the words of the operator's protocol."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self._beat()

    def _beat(self) -> None:
        has_all = (
            self.steps is not None and (self.step or 0) >= self.steps
        )  # what follows the last step is not training
        self.pulse.beat("finishing" if has_all and self._state == "training" else self._state, self.step)

    def note(self, measured: Mapping[str, Any], samples: Any) -> None:
        """Take what the program has measured: the newest value of each name, and more samples."""
        self.samples += samples
        self.loss = measured.get("loss", self.loss)
        if len(measured) > ("loss" in measured):
            found = {**self.metrics, **{name: value for name, value in measured.items() if name != "loss"}}
            self.metrics = dict(islice(found.items(), MAX_METRICS))  # those that came first

    def note_silence(self, process: str, silence: Silence | None) -> None:
        """The storage does not answer a process of this pod; None: it answers again."""
        others = {name: one for name, one in self.silences.items() if name != process}
        self.silences = others if silence is None else {**others, process: silence}

    @property
    def silence(self) -> Silence | None:
        """The longest silence of the storage; None if it answers."""
        return min(self.silences.values(), default=None)

    def resume(self, step: int, uri: str, note: str) -> None:
        """Training goes on from the checkpoint of `step` at `uri`."""
        # In this order: a report in between must not show the restored step as one of our own.
        self.resumed_from = Resumed(step, uri, note)
        self.step = step

    def count_step(self, step: int) -> bool:
        """`step` steps are done. True if it is the first one of this process."""
        is_first = self.first_step is None
        if is_first:
            self.first_step = (step, time.monotonic())
        self.step = step
        self.data.end_step()
        self._beat()
        return is_first

    @property
    def peak_memory(self) -> int | None:
        """The most memory of an accelerator that a rank had, in bytes; None if no rank has one."""
        return max((peak for peak in (peak_memory(), self.ranks_peak) if peak), default=None)
