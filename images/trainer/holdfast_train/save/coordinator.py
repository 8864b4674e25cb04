"""Saves of all ranks together: every rank acts on the results that rank 0 has received from its writer."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from holdfast_train.commitlog.checkpoints import Clean, Saved
from holdfast_train.errors import (
    HoldfastTrainError,
    RanksDifferError,
    StateError,
    StorageError,
    StorageUnreachableError,
    WriterLostError,
)
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import compare
from holdfast_train.memory import available
from holdfast_train.progress import Silence
from holdfast_train.ranks import Ranks
from holdfast_train.save.frozen import FrozenNames
from holdfast_train.save.links import link
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import Saver
from holdfast_train.save.schedule import SaveSchedule
from holdfast_train.save.training_state import TrainingState
from holdfast_train.say import say
from holdfast_train.series.feed import SeriesFeed
from holdfast_train.series.segment import Header


class SaveCoordinator:
    """The saves of one run. Every rank has one and calls the same methods in the same order.

    `stop_error`: why this attempt must end, on rank 0: a newer one has started. `on_change` is called in a thread when
    there is something new to report. `metrics` returns what was measured in this step, as decimals; `clean` returns how
    many steps up to a step had finite losses. `resumed`: the step from which this run went on. `series` takes
    the history of the training, on rank 0.
    """

    def __init__(
        self,
        opened: Open,
        state: TrainingState,
        *,
        ranks: Ranks,
        schedule: SaveSchedule,
        on_change: Callable[[], None],
        metrics: Callable[[], Mapping[str, str]],
        clean: Callable[[int], Clean | None] = lambda _: None,
        resumed: int | None = None,
    ) -> None:
        self._attempt = opened.environment.identity.attempt
        self._retry = opened.environment.timings.retry
        self._ranks = ranks
        self._schedule = schedule
        self._on_change = on_change
        self._metrics, self._clean = metrics, clean
        self.stop_error: HoldfastTrainError | None = None
        self._must_compare = ranks.size > 1  # before the next save
        self._may_differ: frozenset[str] = frozenset()  # saved per rank if ranks turn out to differ in them
        self._doubted: set[str] = set()  # of these, those that a save has found to differ
        self._newest: CheckpointName | None = None  # the save that has begun last,
        self._result: Saved | StorageError | None = None  # and its result, None until it is known
        self._kept: CheckpointName | None = None  # the save that the writer has kept last
        self._links = link(opened.environment, ranks)
        links = None if self._links is None else self._links.names
        header = Header.new(opened.environment.identity, resumed) if opened.rank == 0 else None
        listeners = self._on_result, self._on_kept, self._on_silence
        self.saver = Saver(replace(opened, links=links, series=header), state, *listeners)
        self.series = SeriesFeed(self.saver.send) if header is not None else None

    def raise_stop_error(self) -> None:
        """Raise the `stop_error` of rank 0 on every rank."""
        error: HoldfastTrainError = self._ranks.share(self.stop_error)
        raise error

    def close(self, *, is_complete: bool) -> None:
        """As `Saver.close`."""
        if self.series is not None:
            self.series.close()
        self.saver.close(is_complete=is_complete)
        if self._links is not None:
            self._links.listener.close()

    def prepare(self) -> None:
        """Get ready for the first save, once the first step is done."""
        free = available()  # here: no rank takes memory for its copy before the comparison
        self._compare()
        self.saver.prepare(free)
        self._check_memory()

    def begin(self, step: int, patience: float, at_most: float, *, waits: bool = False, last: bool = False) -> None:
        """Begin to save `step`. For the other arguments see `Saver.begin`."""
        self._schedule.record_begun()
        if self.series is not None:
            self.series.flush()  # here: the commit names what was measured up to it
        # Of the data that rank 0 names here, every rank decides for itself whether it uses it again.
        names = FrozenNames(CheckpointName.new(step, self._attempt), self.saver.frozen.committed)
        name, names, metrics, clean, self._must_compare = self._ranks.share(
            (CheckpointName.new(step, self._attempt), names, self._metrics(), self._clean(step), self._must_compare)
        )
        self._compare()
        self._newest, self._result = name, None
        try:
            known = {"metrics": metrics, "clean": clean, "frozen": names, "last": last}
            self.saver.begin(name, step, patience=patience, at_most=at_most, waits=waits, **known)
            self._check_memory()
        except StorageError as error:  # without this rank's part, no rank can commit this checkpoint
            self._result = self._schedule.record_failed(error)
            say(str(error))

    def save(self, step: int, patience: float, left: Callable[[], float], *, last: bool = False) -> bool:
        """Save `step` and wait until it is committed, or no seconds are `left`. FencedError if a newer attempt runs.

        False if this save was not committed, even if an earlier one of the same step was: the state may have changed
        since. The `last` save raises the error instead.
        """
        self.begin(step, patience, left(), waits=True, last=last)
        self.wait(step, left)
        if isinstance(self._result, WriterLostError | RanksDifferError):
            self.begin(step, patience, left(), waits=True, last=last)
            self.wait(step, left)
        if isinstance(self._result, Saved):
            return True
        if last:
            raise self._result or StorageUnreachableError(f"step {step} was not committed in time")
        return False

    def wait(self, step: int, left: Callable[[], float]) -> bool:
        """Wait until no checkpoint is in flight, or no seconds are `left`. True if `step` is committed.

        Every rank waits for its own writer, which then uploads without a limit of the rate.
        """
        self.saver.wait(left)
        self._schedule.saved_step, self._schedule.failure, self._result, stop_error = self._ranks.share(
            (self._schedule.saved_step, self._schedule.failure, self._result, self.stop_error)
        )
        if stop_error is not None:
            raise stop_error
        return self._schedule.saved_step == step

    def has_room(self) -> bool:
        """True if this rank can begin a save. Otherwise the save that is due is recorded as skipped."""
        if not self.saver.can_begin:
            self._schedule.record_skipped(at_most=self.saver.has_most_copies)
            return False
        return True

    def next_size(self) -> int:
        """Bytes that the next save will probably upload, as rank 0 knows them; 0 if none is saved."""
        newest = self._schedule.newest
        if newest is None:
            return 0
        return newest.size - newest.shared if self.saver.frozen.is_stored else newest.size

    def is_saved(self, step: int) -> bool:
        """True if `step` is committed. The same answer on every rank: only rank 0 gets the results of saves at once."""
        found: bool = self._ranks.share(self._schedule.saved_step == step)
        return found

    @property
    def is_busy(self) -> bool:
        """True if a checkpoint is in flight. The same answer on every rank."""
        found: bool = self._ranks.share(self.saver.is_busy)
        return found

    def _check_memory(self) -> None:
        """Report, on rank 0, if there is no memory for the copies of the state."""
        if self._ranks.first and self._schedule.record_memory(self.saver.shortage):
            self._on_change()

    def _compare(self) -> None:
        """Find out with all ranks what differs between them, if that is not known."""
        if self._must_compare:
            tree, mine = self.saver.facts()
            self._may_differ = frozenset((*mine.objects, *mine.leaves))
            facts = self._ranks.gather(mine)
            self.saver.apart = self._ranks.share(compare(tree, facts, self._doubted) if facts else None)
            self._must_compare = False

    def _doubt(self, error: RanksDifferError) -> HoldfastTrainError | None:
        """The error that ends the training if what differs must be the same; otherwise the next save compares all."""
        if error.what not in self._may_differ:
            return StateError(
                f"{error}. Parameters and the state of their optimizer must be the same on all ranks, or sharded "
                f"(DTensor); pass objects that differ as per_rank"
            )
        self._doubted.add(error.what)
        self._must_compare = True
        return None

    def _on_result(self, name: CheckpointName, result: Saved | HoldfastTrainError) -> None:
        """Record the result of the save `name`. Called on rank 0, in a thread, at any moment."""
        if isinstance(result, Saved):
            self._note(name, result)
            lost = self.saver.seconds_lost(result.step)
            self._schedule.record_saved(result, lost, was_kept=name == self._kept)
            reused = f", {result.reused / 2**20:.1f} MiB of them stored before" if result.reused else ""
            say(f"saved step {result.step}: {result.size / 2**20:.1f} MiB in {result.seconds:.2f} s{reused}")
        elif isinstance(result, RanksDifferError) and (error := self._doubt(result)) is not None:
            self.stop_error = error
        elif isinstance(result, StorageError):
            self._note(name, self._schedule.record_failed(result, is_mended=self.saver.take_mended()))
            say(f"a checkpoint could not be saved ({result}); training goes on and tries again")
        else:
            self.stop_error = result
        self._on_change()

    def _on_kept(self, name: CheckpointName, error: HoldfastTrainError) -> None:
        """Record that the writer keeps the save `name`, to try it again. Called as `_on_result`."""
        assert isinstance(error, StorageError)
        self._note(name, self._schedule.record_failed(error, is_kept=True))
        if name != self._kept:
            say(
                f"a checkpoint could not be saved ({error}); training goes on, and the copy of its state is tried "
                f"again every {self._retry:.0f} s"
            )
        self._kept = name
        self._on_change()

    def _on_silence(self, silence: Silence | None) -> None:
        """Record that the storage does not answer the writer, or answers again. Called as `_on_result`."""
        self._schedule.record_silence("writer", silence)
        self._on_change()

    def _note(self, name: CheckpointName, result: Saved | StorageError) -> None:
        if name == self._newest:
            self._result = result
