"""`Ending`: how a run ends. It saves, writes the verdict, hands over and sends the last report, in this order."""

import math
import os
from functools import partial
from typing import NoReturn, Protocol

from holdfast_protocol import reasons, variables
from holdfast_protocol.lost_peer import says_peer_is_gone
from holdfast_protocol.rank_verdict import Result
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Environment
from holdfast_train.errors import AlreadyCompleteError, HoldfastTrainError, StorageError
from holdfast_train.pod.rank_verdict import write_rank_verdict
from holdfast_train.pod.reporter import Reporter
from holdfast_train.progress import Progress
from holdfast_train.ranks import Ranks
from holdfast_train.run.leaving import end_now, hand_over
from holdfast_train.run.notice import Notice
from holdfast_train.run.quick_end import end_quickly
from holdfast_train.run.rollback import Faults
from holdfast_train.run.step_agreement import ALIKE, StepAgreement
from holdfast_train.save.coordinator import SaveCoordinator
from holdfast_train.save.last_save import choose_last_save, spare
from holdfast_train.save.schedule import SaveSchedule
from holdfast_train.say import say
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.timings import USUAL


class Save(Protocol):
    """Saves the step that is done, and waits until it is committed. True if it is."""

    def __call__(self, patience: float, *, last: bool = False) -> bool: ...


class Ending:
    """The ways in which a run ends. `step` is the number of steps done, in every method.

    `left` is True once the loop has to end, or must not begin, because of a notice. `was_complete`: an earlier attempt
    has completed the training. An early end happens before `open_storage` or `begin_saving`: then there is nothing to
    save, or nothing to hand over.
    """

    def __init__(
        self,
        environment: Environment | None,
        ranks: Ranks,
        notice: Notice,
        agreement: StepAgreement,
        *,
        progress: Progress,
        schedule: SaveSchedule,
        save: Save,
        reporter: Reporter | None,
    ) -> None:
        self.left = self.was_complete = False
        self._environment = environment
        self._ranks = ranks
        self._progress = progress
        self._notice = notice
        self._agreement = agreement
        self._schedule = schedule
        self._save = save
        self._reporter = reporter
        self._timings = USUAL if environment is None else environment.timings
        self._storage: RetryingStorage | None = None
        self._checkpoints: Checkpoints | None = None
        self._coordinator: SaveCoordinator | None = None
        self._faults: Faults | None = None
        self._has_verdict = False

    def open_storage(self, storage: RetryingStorage) -> None:
        """The run uses `storage` from now on."""
        self._storage = storage

    def begin_saving(
        self, checkpoints: Checkpoints | None, coordinator: SaveCoordinator, faults: Faults | None = None
    ) -> None:
        """From now on there are steps to save, and a fence to hand over. `checkpoints` is set on rank 0 alone.

        The verdict "running" stays until the run ends, and shows a program that ends before its run.
        """
        self._checkpoints, self._coordinator, self._faults = checkpoints, coordinator, faults
        message = "the program ended in the block of its Run, and did not leave the block"
        write_rank_verdict(self._verdict_folder, self._ranks.rank, "running", reason="RunNotEnded", message=message)

    # On a notice.

    @property
    def is_urgent(self) -> bool:
        """True if no time is left to train on until an accumulation of gradients ends, and to save then."""
        return self._environment is not None and self._notice.seconds_left() < spare(self._environment.settings.grace)

    def leave(self, step: int, *, obstacle: str = "") -> None:
        """Save if the time left allows it, hand over, and end the loop. Every rank calls it at the same step.

        `obstacle`: why the state must not be saved: see `StepBoundary`.
        """
        reason = self._agree_on_notice()
        self._wait_for_pending(step, f"notice to leave ({reason}); finishing the checkpoint that is on its way")
        size = 0 if self._coordinator is None else self._coordinator.next_size()
        left, saved, costs, size = self._ranks.share(
            (self._notice.seconds_left(0.0), self._schedule.saved_step == step, self._schedule.costs, size)
        )
        if obstacle:
            say(f"notice to leave ({reason}) in {left:.1f} s, while {obstacle}: not saving")
        elif not saved and step > 0:
            # The costs of uploads with a limit say nothing of the last one, which has none.
            limited = self._environment is not None and self._environment.upload_rate is not None
            rule = choose_last_save(left, size, () if limited else costs)
            say(f"notice to leave ({reason}) in {left:.1f} s; {rule.why}")
            saved = rule.save and self._save(left)
        newest = self._schedule.saved_step
        known = f"the newest checkpoint is of step {newest}" if newest else "there is no checkpoint"
        message = f"notice to leave ({reason}) at step {step}; " + ("it is saved" if saved else known)
        self._end_loop("saved" if saved else "left", step, message)

    def leave_fence(self, predecessor: int) -> None:
        """End before the first step: a notice came before attempt `predecessor` had handed over."""
        reason = self._agree_on_notice()
        self._end_loop("left", 0, f"notice to leave ({reason}) before attempt {predecessor} had handed over")

    def leave_now(self, step: int) -> NoReturn:
        """End this process at the second SIGTERM. Called in a signal handler."""
        last_act = None
        if self._checkpoints is not None and self._storage is not None and self._progress.state == "training":
            last_act = partial(hand_over, self._checkpoints, self._storage, self._timings.handover_now)

        def write_verdict(message: str) -> None:
            if not self._has_verdict:
                self._write_verdict("left", step, message=message)

        busy = self._coordinator is not None and self._coordinator.saver.is_busy
        end_now(step, self._schedule.saved_step, busy=busy, verdict=write_verdict, last_act=last_act)

    def _agree_on_notice(self) -> str:
        """Why we leave, the same on every rank. Each gets the earliest deadline: the ranks may be on several nodes."""
        told = self._ranks.gather((self._notice.reason, self._notice.seconds_left()))
        reasons = [reason for reason, _ in told if reason] or ["another rank has to leave"]
        reason, seconds = self._ranks.share((reasons[0], min((left for _, left in told), default=0.0)))
        if seconds < self._notice.seconds_left() or not self._notice.is_given:
            grace = math.inf if self._environment is None else self._environment.settings.grace
            self._notice.give(seconds if math.isfinite(seconds) else grace, reason)
        found: str = reason
        return found

    def _end_loop(self, result: Result, step: int, message: str) -> None:
        """End the loop. The verdict comes first: the handover may use up the time that is left."""
        self.left = True
        end_quickly()
        self._write_verdict(result, step, message=message)
        self._drop_kept()  # the log refuses it after the handover
        if self._checkpoints is not None and self._storage is not None:
            hand_over(self._checkpoints, self._storage, self._notice.seconds_left(0.0), self._timings)
        self._progress.state = "left"

    # At the end of the program.

    def end(self, error: BaseException | None, step: int, *, asked: bool = False) -> None:
        """The block of the Run is over, with an `error` if it raised one. `asked`: as `finish`."""
        if isinstance(error, SystemExit) and isinstance(error.__cause__, HoldfastTrainError):
            error = error.__cause__  # of a second Run inside this one
        try:
            if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
                self.finish(step, asked=asked)
            elif isinstance(error, HoldfastTrainError):
                self.exit_with(error, step)
            else:
                self.fail(error, step)
        except HoldfastTrainError as failure:
            self.exit_with(failure, step)
        except Exception as failure:  # such as another rank that is gone
            self.fail(failure, step)
            raise

    def finish(self, step: int, *, asked: bool = False) -> None:
        """The loop is over. If it did not leave, save its last step and record that training is complete.

        `asked`: this rank has asked for a save since that step, so it is saved again if it was.
        """
        if self.was_complete:
            message = f"training was completed at step {step} by an earlier attempt"
            self._write_verdict("completed", step, reason=AlreadyCompleteError.reason, message=message)
        elif not self.left:
            self._agreement.meet("end", step)
            if self._faults is not None:
                self._faults.check_last_steps()
            # Without storage no record proves the end, so exit code and signals decide, as for any program.
            if self._storage is not None:
                self._wait_for_pending(step)
                is_asked = self._ranks.any(asked)[0]
                if is_asked or self._coordinator is None or not self._coordinator.is_saved(step):
                    self._save(self._timings.last_save, last=True)
                self._ranks.from_first(partial(self._complete, step))
            self._progress.state = "completed"
            if self._storage is not None:
                message = f"training completed at step {step}"
                self._write_verdict("completed", step, reason=reasons.COMPLETED, message=message)
        self._send_last_report()

    def fail(self, error: BaseException | None, step: int) -> None:
        """The program ends with an `error` of its own, or with an exit code."""
        end_quickly()
        has_no_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        reason = reasons.OUT_OF_MEMORY if has_no_memory else reasons.USER_EXCEPTION
        if not self.left:
            message = f"{type(error).__name__}: {error}"
            self._write_verdict("failed", step, reason=reason, message=message)
            if (ended := self._agreement.fail(step)) and says_peer_is_gone(message):
                message = f"{ended}, and this rank waited for it after step {step}: {ALIKE}"
                say(message)
                self._write_verdict("failed", step, reason=reason, message=message)
        self._send_last_report()

    def exit_with(self, error: HoldfastTrainError, step: int) -> NoReturn:
        """End the process because of `error`. Its exit code and its verdict say the same."""
        say(f"{error.reason}: {error}")
        end_quickly()
        if not self.left:
            self._write_verdict(error.outcome, step, reason=error.reason, message=str(error))
            self._agreement.fail(step)
        self._progress.state = "completed" if isinstance(error, AlreadyCompleteError) else "left"
        self._drop_kept()
        self._send_last_report()
        self._notice.stop_listening()
        raise SystemExit(error.exit_code) from error

    def _wait_for_pending(self, step: int, message: str = "") -> None:
        """Wait for the checkpoint that is on its way, if there is one, and say so with `message`."""
        if self._coordinator is not None and self._coordinator.is_busy:
            if message:
                say(message)
            self._coordinator.wait(step, self._notice.seconds_left)

    def _drop_kept(self) -> None:
        if self._coordinator is not None:
            self._coordinator.saver.drop_kept()

    def _complete(self, step: int) -> None:
        """Record on rank 0 that training is complete."""
        assert self._checkpoints is not None
        assert self._storage is not None
        try:
            with self._storage.within(self._timings.last_save, at_most=self._notice.seconds_left()):
                self._checkpoints.complete(step)
        except StorageError as error:
            raise self._schedule.record_failed(error) from error

    def _write_verdict(self, result: Result, step: int, *, reason: str = "", message: str = "") -> None:
        self._has_verdict = True
        known = {"step": step, "saved_step": self._schedule.saved_step}
        write_rank_verdict(self._verdict_folder, self._ranks.rank, result, reason=reason, message=message, **known)

    @property
    def _verdict_folder(self) -> str | None:
        if self._environment is None:  # it cannot be read, which the launcher has to know too
            return os.environ.get(variables.VERDICT_DIR)
        return self._environment.verdict_folder

    def _send_last_report(self) -> None:
        if self._reporter is not None:
            self._reporter.finish(self._timings.farewell)
            self._reporter = None
