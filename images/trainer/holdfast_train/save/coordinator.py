"""Saving, by all ranks together: what rank 0's storage said is what every rank goes by."""

import uuid
from collections.abc import Callable, Mapping

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.errors import HoldfastTrainError, StorageError, StorageUnreachableError, WriterLostError
from holdfast_train.ranks import Ranks
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import Content, Saver
from holdfast_train.save.schedule import Saving
from holdfast_train.say import say

__all__ = ["Checkpointer"]


class Checkpointer:
    """The saves of one run. Every rank has one and calls the same methods in the same order.

    `out`: why this attempt must not go on, as rank 0 was told: a newer one has started. `told` is called in a thread
    whenever there is something new to report; `metrics` says what was measured at this step, in decimals.
    """

    def __init__(
        self,
        opened: Open,
        content: Content,
        *,
        ranks: Ranks,
        saving: Saving,
        told: Callable[[], None],
        metrics: Callable[[], Mapping[str, str]],
    ) -> None:
        self._attempt = opened.environment.identity.attempt
        self._ranks = ranks
        self._saving = saving
        self._told = told
        self._metrics = metrics
        self.out: HoldfastTrainError | None = None
        self.saver = Saver(opened, content, self._on_result)

    def raise_out(self) -> None:
        """Raise rank 0's `out`, on every rank."""
        error: HoldfastTrainError = self._ranks.share(self.out)
        raise error

    def begin(self, step: int, patience: float, at_most: float) -> None:
        """Begin to save `step`. For the times see `Patient.within`."""
        self._saving.begun()
        name = f"{step:012d}-a{self._attempt}-{uuid.uuid4().hex[:12]}"
        name, metrics = self._ranks.share((name, self._metrics()))
        try:
            self.saver.begin(name, step, patience=patience, at_most=at_most, metrics=metrics)
        except StorageError as error:  # those before it are still on their way: this one comes to nothing, on all ranks
            self._saving.failed(error)
            say(str(error))

    def save(self, step: int, patience: float, left: Callable[[], float], *, last: bool = False) -> bool:
        """Save `step` and wait until it is committed, or no seconds are `left`. FencedError if we are out.

        False if the storage failed, but for the `last` save, which raises its error.
        """
        self.begin(step, patience, left())
        saved = self.wait(step, left)
        if not saved and isinstance(self._saving.failure, WriterLostError):
            self.begin(step, patience, left())
            saved = self.wait(step, left)
        if last and not saved:
            raise self._saving.failure or StorageUnreachableError(f"step {step} was not committed in time")
        return saved

    def wait(self, step: int, left: Callable[[], float]) -> bool:
        """Wait until no checkpoint is on its way, or no seconds are `left`. Is `step` committed?"""
        if self._ranks.first:
            self.saver.wait(left)
        self._saving.step, self._saving.failure, out = self._ranks.share(
            (self._saving.step, self._saving.failure, self.out)
        )
        if out is not None:
            raise out
        return self._saving.step == step

    @property
    def busy(self) -> bool:
        """Is a checkpoint on its way? The same answer on every rank."""
        found: bool = self._ranks.share(self.saver.busy)
        return found

    def _on_result(self, result: Saved | HoldfastTrainError) -> None:
        """What came of a save: on rank 0, in a thread, and whatever the loop is doing."""
        if isinstance(result, Saved):
            self._saving.succeeded(result, self.saver.lost(result.step))
            say(f"saved step {result.step}: {result.size / 1e6:.1f} MB in {result.seconds:.2f} s")
        elif isinstance(result, StorageError):
            self._saving.failed(result)
            say(f"a checkpoint could not be saved ({result}); training goes on and tries again")
        else:
            self.out = result
        self._told()
