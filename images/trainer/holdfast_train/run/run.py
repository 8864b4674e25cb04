"""`Run`: what a training loop uses. It restores, reports, saves, and leaves when told to."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment
from holdfast_train.errors import (
    AlreadyCompleteError,
    HoldfastTrainError,
    StorageError,
)
from holdfast_train.format.program import Program, Severity, check_rules, describe
from holdfast_train.format.stateful import Counts, Stateful, checked
from holdfast_train.pod.rank_verdict import forget_rank_verdict, write_rank_verdict
from holdfast_train.pod.reporter import Order, Reporter
from holdfast_train.progress import Progress
from holdfast_train.ranks import Ranks
from holdfast_train.restore.candidates import Candidates, start
from holdfast_train.restore.into_objects import check_program, restore, restore_objects, restore_rank
from holdfast_train.restore.restored import Restored
from holdfast_train.run.fence_wait import Hold
from holdfast_train.run.leaving import end_now, hand_over
from holdfast_train.run.notice import Notice
from holdfast_train.save.coordinator import SaveCoordinator
from holdfast_train.save.last_save import choose_last_save
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import TrainingState
from holdfast_train.save.schedule import FINAL_PATIENCE, SAVE_PATIENCE, SaveSchedule, decimals
from holdfast_train.say import say
from holdfast_train.storage.opening import open_patient
from holdfast_train.storage.retrying import Patient

__all__ = ["Run"]

FAREWELL_SECONDS: Final = 2.0


class Run:
    """One training. Keyword arguments are what a checkpoint holds: anything with state_dict and load_state_dict.

        with holdfast_train.Run(model=model, optimizer=optimizer, data=data) as run:  # resumes here
            for step in run.steps(goal):
                loss = train_step(data.batch(step))
                run.report(loss=loss, samples=len(batch))

    Under torchrun, make the process group first. Each rank saves its share; what differs between ranks goes into
    `per_rank`. Random number generators are always part of a checkpoint. Outside a Holdfast pod nothing is saved or
    reported, and the loop runs as it would without us. `config` (a mapping, a dataclass, a Namespace) and `rules` say
    what a resume should find unchanged: see `program`.

    `step`: steps done. `left`: told to leave, and the loop has ended (or must not begin) for that. `resumed_from`: the
    checkpoint's step.
    """

    def __init__(
        self,
        *,
        per_rank: Mapping[str, Stateful] | None = None,
        config: Any = None,
        rules: Mapping[str, Severity] | None = None,
        environment: Environment | None = None,
        **objects: Stateful,
    ) -> None:
        self._objects = {name: checked(name, thing) for name, thing in objects.items()}
        self._per_rank = {name: checked(name, thing) for name, thing in (per_rank or {}).items()}
        self._counting = [t for t in (*self._objects.values(), *self._per_rank.values()) if isinstance(t, Counts)]
        self._config = config
        self._rules = rules or {}
        check_rules(self._rules)
        self._program: Program | None = None
        self._measured: dict[str, Any] = {}  # since the last step was counted
        self._of_step: dict[str, Any] = {}  # and in that step
        self.step = 0
        self.left = False
        self._said = False  # why it ends
        self.resumed_from: int | None = None
        self._environment = environment
        self._goal: int | None = None
        self._progress = Progress()
        self._reporter: Reporter | None = None
        self._ranks = Ranks(connect=False)
        self._hold = Hold()  # before an order can end it
        self._notice = Notice(0.0)
        self._storage: Patient | None = None
        self._checkpoints: Checkpoints | None = None
        self._saving = SaveSchedule(self._progress)
        self._checkpointer: SaveCoordinator | None = None

    def __enter__(self) -> Self:
        try:
            self._environment = self._environment or Environment.read()
            if self._environment is not None:
                self._start(self._environment)
        except HoldfastTrainError as error:
            self._end_with(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._environment is None:
            return
        try:
            if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
                self._finish()
            elif isinstance(error, HoldfastTrainError):
                self._end_with(error)
            else:
                self._failed(error)
        except HoldfastTrainError as failure:
            self._end_with(failure)
        finally:
            self._notice.stop_listening()
            if self._checkpointer is not None:
                self._checkpointer.saver.close()

    # What the loop calls.

    def steps(self, goal: int | None = None) -> Iterator[int]:
        """The numbers of the steps still to do, up to `goal` (HOLDFAST_GOAL_STEPS if None, endless without that).

        The first is the one after the checkpoint's. Ends early, with `left` set, when the pod is told to leave.
        """
        if goal is None and self._environment is not None:
            goal = self._environment.goal_steps
        self._goal = self._progress.steps = goal
        # Told to leave while it was restoring: no step is begun.
        if self._environment is not None and not self.should_stop and self._ranks.any(self._notice.given)[0]:
            self._leave()
        while not self.should_stop:
            yield self.step
            self.advance()

    @property
    def should_stop(self) -> bool:
        """Is it time to end the loop, because the goal is reached or because the pod has to leave?"""
        return self.left or (self._goal is not None and self.step >= self._goal)

    def report(self, loss: Any = None, samples: float = 0.0, metrics: Mapping[str, Any] | None = None) -> None:
        """Note the loss (a number, or a tensor: it is not read here) and how many samples the step took. Cheap.

        `metrics` are numbers or tensors too: `checkpoint.keep.best` goes by one of them, or by `loss`.
        """
        if self._environment is None:
            return
        measured = {**(metrics or {}), **({} if loss is None else {"loss": loss})}
        self._measured |= {
            name: value.detach() if hasattr(value, "detach") else value for name, value in measured.items()
        }
        self._progress.loss = self._measured.get("loss", self._progress.loss)
        self._progress.samples += samples

    def advance(self, loss: Any = None, samples: float = 0.0) -> None:
        """One step is done. `steps` calls it; a loop of another shape calls it itself and looks at `should_stop`.

        Begins to save if it is time to. FencedError if a newer attempt has started.
        """
        self.step += 1
        for thing in self._counting:
            thing.trained(self.step)
        if self._environment is None:
            return
        if loss is not None or samples:
            self.report(loss, samples)
        self._of_step, self._measured = self._measured, {}
        progress = self._progress
        progress.step = self.step
        if progress.state == "starting":
            progress.state = "training"
            self._poke()
            if self._checkpointer is not None:
                self._checkpointer.saver.prepare()  # the optimizer has its state now
        checkpointer = self._checkpointer
        full = checkpointer is not None and not checkpointer.saver.can_begin
        out = checkpointer is not None and checkpointer.stop_error is not None
        leave, save, full, out = self._ranks.any(self._notice.given, self._save_is_due(), full, out)
        if checkpointer is not None and out:
            checkpointer.raise_stop_error()
        if self._goal is not None and self.step >= self._goal:
            return  # the end saves anyway, and having completed is better than having left
        if leave:
            self._leave()
        elif save and full:
            self._saving.record_skipped()
        elif save and checkpointer is not None:
            checkpointer.begin(self.step, SAVE_PATIENCE, math.inf)
            # Told to leave meanwhile: no further step is begun.
            if self._ranks.any(self._notice.given)[0]:
                self._leave()

    def save(self) -> bool:
        """Save now, at this step. Under torchrun every rank must call it. True if it is committed."""
        if self._environment is None:
            return False
        return self._save(SAVE_PATIENCE)

    # The start.

    def _start(self, environment: Environment) -> None:
        self._ranks = Ranks(connect=True)
        forget_rank_verdict(environment.verdict_folder, self._ranks.rank)
        self._progress.steps = environment.goal_steps
        self._saving = SaveSchedule(self._progress, environment.credentials)  # before an order can ask for a save
        folder = environment.verdict_folder
        self._notice = Notice(environment.grace, told=self._on_notice, now=self._leave_now, folder=folder)
        self._notice.listen()
        if self._ranks.first and environment.operator_url:
            self._reporter = Reporter(environment, self._progress, self._on_order)
            self._reporter.start()
        if environment.checkpoint_uri is None:
            say("no checkpoint storage is set: nothing will be saved")
            return
        self._program = describe(
            config=self._config,
            objects={**self._objects, **self._per_rank},
            ranks=self._ranks.size,
            nodes=environment.nodes,
        )
        storage = open_patient(environment, environment.checkpoint_uri)
        if environment.predecessor is not None and not self._wait_for(environment.predecessor, storage):
            return
        self._storage = storage
        restored = restore(environment, self._ranks, self._own_and_choose, self._objects, self._per_rank)
        if restored is not None:
            self._resume(restored)
        ours = restored is not None and restored.uri.startswith(f"{self._storage.uri}/manifests/")
        self._saving.start(restored.step if restored is not None and ours else None)
        checkpoints = self._checkpoints  # rank 0 has raised the fence, and read the log
        fence = checkpoints.log.fence if checkpoints else None
        opened = Open(environment, self._ranks.rank, self._ranks.size, fence)
        self._checkpointer = SaveCoordinator(
            opened,
            TrainingState(self._objects, self._per_rank, self._program),
            ranks=self._ranks,
            schedule=self._saving,
            on_change=self._poke,
            metrics=lambda: decimals(self._of_step),
        )

    def _wait_for(self, predecessor: int, storage: Patient) -> bool:
        """Hold at the fence until attempt `predecessor` has handed over. False if told to leave before that."""
        assert self._environment is not None
        if self._ranks.first:
            say(f"ready; holds at the fence until attempt {predecessor} has handed over")
        self._progress.state = "holding"
        self._poke()
        commits = CommitLog(storage, self._environment.identity)
        go = self._hold.wait(self._ranks, self._notice, lambda: commits.end_of_hold(predecessor))
        self._progress.state = "starting"
        if go:
            self._poke()
        else:
            self._end("left", f"told to leave ({self._why()}) before attempt {predecessor} had handed over")
        return go

    def _own_and_choose(self) -> Candidates:
        """Rank 0: raise the fence, and say what there is to resume from."""
        assert self._environment is not None
        assert self._storage is not None
        self._checkpoints = start(self._environment, self._storage)
        self._progress.fenced = True
        self._poke()
        return Candidates(self._environment, self._storage, self._checkpoints)

    def _resume(self, restored: Restored) -> None:
        assert self._program is not None
        check_program(restored, self._program, self._rules, first=self._ranks.first)
        restore_objects(restored, self._objects, first=self._ranks.first)
        self.step = self.resumed_from = restored.step
        note = restored.note
        say(f"resumed from step {restored.step} ({restored.uri})" + (f"; {note}" if note else ""))
        # In this order: a report in between must not show the restored step as one of our own.
        self._progress.resumed_from = {"step": restored.step, "uri": restored.uri, "note": note}
        self._progress.step = restored.step
        self._poke()
        restore_rank(restored, self._ranks.rank, self._per_rank)

    # Saving.

    def _save_is_due(self) -> bool:
        if self._environment is None or self._checkpoints is None:
            return False
        return self._saving.is_due(self.step, self._environment.every)

    def _save(self, patience: float, *, last: bool = False) -> bool:
        """Save this step, and wait until it is committed, or it is time to end: `SaveCoordinator.save`."""
        if self._checkpointer is None:
            return False
        before, self._progress.state = self._progress.state, "saving"
        self._poke()
        try:
            return self._checkpointer.save(self.step, patience, self._left, last=last)
        finally:
            self._progress.state = before

    # Leaving.

    def _on_order(self, order: Order) -> None:
        if order.type == "drain":
            self._notice.give(order.seconds_left, order.reason or "a drain order")
        elif order.type == "checkpoint":
            self._saving.requested = True
        elif order.type == "go":
            self._hold.end(f"told to go on ({order.reason or 'an order'})")

    def _on_notice(self, why: str) -> None:
        """Whatever waits goes by the new deadline. May be called in a signal handler."""
        self._hold.end(why)
        if self._storage is not None:
            self._storage.hurry(self._left())

    def _left(self) -> float:
        """Seconds until this process must have ended."""
        return self._notice.seconds_left(math.inf)

    def _why(self) -> str:
        """Who told us to leave, the same on every rank."""
        return self._ranks.share(self._notice.why) or "another rank was told"

    def _leave(self) -> None:
        """Save if what is left of the grace allows it, hand over, and end the loop. Every rank, at the same step."""
        assert self._environment is not None
        why = self._why()
        if not self._notice.given:  # another rank was: our time runs from now on
            self._notice.give(self._environment.grace, why)
        if self._checkpointer is not None and self._checkpointer.is_busy:
            say(f"told to leave ({why}); finishing the checkpoint that is on its way")
            self._checkpointer.wait(self.step, self._left)
        left, saved, costs = self._ranks.share(
            (self._notice.seconds_left(0.0), self._saving.saved_step == self.step, self._saving.costs)
        )
        if not saved and self.step > 0:
            limited = self._environment.upload_rate is not None  # then costs say nothing of one without a limit
            rule = choose_last_save(left, costs[-1].size if costs else 0, () if limited else costs)
            say(f"told to leave ({why}) in {left:.1f} s; {rule.why}")
            saved = rule.save and self._save(left)
        newest = self._saving.saved_step
        known = f"the newest checkpoint is of step {newest}" if newest else "there is no checkpoint"
        message = f"told to leave ({why}) at step {self.step}; " + ("it is saved" if saved else known)
        self._end("saved" if saved else "left", message)

    def _end(self, result: str, message: str) -> None:
        """The loop is over. Whoever holds the fence hands over; the verdict is safe by then."""
        self.left = True
        self._verdict(result, message=message)
        if self._checkpoints is not None and self._storage is not None:
            hand_over(self._checkpoints, self._storage, self._notice.seconds_left(0.0))
        self._progress.state = "left"

    def _leave_now(self) -> None:
        """Told a second time. In a signal handler."""
        checkpoints, storage = self._checkpoints, self._storage
        busy = self._checkpointer is not None and self._checkpointer.saver.is_busy
        last_act = None
        if checkpoints is not None and storage is not None and self._progress.state == "training":
            last_act = partial(hand_over, checkpoints, storage)
        end_now(self.step, self._saving.saved_step, busy=busy, verdict=self._last_words, last_act=last_act)

    def _last_words(self, message: str) -> None:
        if not self._said:
            self._verdict("left", message=message)

    # The end.

    def _finish(self) -> None:
        if not self.left:
            if self._storage is not None:
                if self._checkpointer is not None and self._checkpointer.is_busy:
                    self._checkpointer.wait(self.step, self._left)
                if self._saving.saved_step != self.step:
                    self._save(FINAL_PATIENCE, last=True)
                self._ranks.from_first(self._complete)
            self._progress.state = "completed"
            # Without storage there is no record that proves it, so exit code and signals decide, as for any program.
            if self._storage is not None:
                self._verdict("completed", reason="Completed", message=f"training completed at step {self.step}")
        self._farewell()

    def _complete(self) -> None:
        assert self._checkpoints is not None
        assert self._storage is not None
        try:
            with self._storage.within(FINAL_PATIENCE, at_most=self._left()):
                self._checkpoints.complete(self.step)
        except StorageError as error:
            raise self._saving.record_failed(error) from error

    def _failed(self, error: BaseException) -> None:
        memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        reason = "OutOfMemory" if memory else "UserException"
        if not self.left:
            self._verdict("failed", reason=reason, message=f"{type(error).__name__}: {error}")
        self._farewell()

    def _end_with(self, error: HoldfastTrainError) -> None:
        """Say why, and end the process: its exit code and verdict say the same."""
        say(f"{error.reason}: {error}")
        if isinstance(error, AlreadyCompleteError):
            uri = "" if self._storage is None else self._storage.uri
            note = "training was complete already"
            self._progress.resumed_from = {"step": error.step, "uri": uri, "note": note}
            self.step = self._saving.saved_step = self._progress.step = error.step
        if not self.left:
            self._verdict(error.outcome, reason=error.reason, message=str(error))
        self._progress.state = "completed" if isinstance(error, AlreadyCompleteError) else "left"
        self._farewell()
        self._notice.stop_listening()
        raise SystemExit(error.exit_code) from error

    def _verdict(self, result: str, *, reason: str = "", message: str = "") -> None:
        self._said = True
        write_rank_verdict(
            None if self._environment is None else self._environment.verdict_folder,
            self._ranks.rank,
            result,
            reason=reason,
            message=message,
            step=self.step,
            saved_step=self._saving.saved_step,
        )

    def _poke(self) -> None:
        if self._reporter is not None:
            self._reporter.poke()

    def _farewell(self) -> None:
        if self._reporter is not None:
            self._reporter.finish(FAREWELL_SECONDS)
            self._reporter = None
