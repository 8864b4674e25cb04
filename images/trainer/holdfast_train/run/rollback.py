"""What a run does about a fault of its losses: it goes back to the newest healthy checkpoint, or ends for good.

The next attempt passes over the data of the steps between that checkpoint and the fault, if an object of the run can do
that (`Skips`): the same data would often spoil the training again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, Protocol, runtime_checkable

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.records import HEALTHY_STEPS, Commit, LogState, skipped_at
from holdfast_train.environment import Environment
from holdfast_train.errors import FencedError, HoldfastTrainError, NonFiniteError, NonFiniteStopError
from holdfast_train.ranks import Ranks
from holdfast_train.restore.restored import Restored
from holdfast_train.run.finite import Fault, FiniteGuard
from holdfast_train.say import say
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage

NonFinite = Literal["Rollback", "Stop", "Ignore"]
MOST: Final = 2  # rollbacks of one job by its attempts; the next fault ends the job
TRIES: Final = 3


@runtime_checkable
class Skips(Protocol):
    """An object that can pass over data, such as ElasticSampler. A model has no method of this name by chance."""

    def skip_data(self, steps: int) -> None:
        """Pass over the data of `steps` steps in all, from the current step on."""


def skip(
    restored: Restored | None, objects: Iterable[object], ranks: Ranks, checkpoints: Checkpoints | None, uri: str
) -> None:
    """Let `objects` pass over what the log says, for an attempt that goes on from `restored`.

    Every rank calls it, with the same objects; rank 0 alone has the `checkpoints`, which are at `uri`. A copy in memory
    has no commit in the log, but the state of its objects says it.
    """
    able = [one for one in objects if isinstance(one, Skips)]
    if not able:
        return
    is_own = restored is not None and (not restored.is_stored or restored.step_in(uri) is not None)
    seq = restored.seq if restored is not None and is_own else 0
    steps: int = ranks.share(skipped_at(checkpoints.log.state, seq) if checkpoints is not None else 0)
    for one in able:
        one.skip_data(steps)
    if steps and ranks.first:
        say(f"the data of {steps} steps is passed over, because of a rollback")


def target(state: LogState, fault: Fault) -> Commit | None:
    """The newest healthy commit, None if there is none.

    A commit is healthy by the log, or because HEALTHY_STEPS steps after it were clean before the fault.
    """

    def is_healthy(commit: Commit) -> bool:
        return commit.healthy or HEALTHY_STEPS <= fault.good - commit.step <= fault.clean

    return next((c for c in reversed(state.commits) if not c.corrupt and is_healthy(c)), None)


@dataclass(frozen=True)
class Faults:
    """What all ranks of a run do about bad losses. Rank 0 alone has the `checkpoints`, which are in `storage`."""

    environment: Environment
    guard: FiniteGuard
    ranks: Ranks
    checkpoints: Checkpoints | None
    storage: RetryingStorage
    objects: Mapping[str, object]

    def end_attempt(self) -> NoReturn:
        """End the attempt on all ranks, because some of them have a fault. Every rank calls it at the same step.

        Rank 0 rolls back in the log first.
        """
        skips = any(isinstance(one, Skips) for one in self.objects.values())
        fault = self.ranks.share(_first([one for one in self.ranks.gather(self.guard.fault) if one is not None]))

        def act() -> HoldfastTrainError:
            with self.storage.within(PATIENCE_SECONDS):
                return decide(self.environment.settings.non_finite, fault, self.checkpoints, skips=skips)

        error: HoldfastTrainError = self.ranks.from_first(act)
        raise error

    def check_last_steps(self) -> None:
        """End the attempt on all ranks if the last losses make a fault: those of a GPU are read after their steps.

        Every rank calls it, once its loop is over.
        """
        if self.ranks.any(self.guard.settle())[0]:
            self.end_attempt()


def _first(faults: list[Fault]) -> Fault | None:
    """The fault with the earliest step; None on ranks to which none was gathered."""
    return min(faults, key=lambda fault: fault.first, default=None)


def decide(
    action: NonFinite, fault: Fault, checkpoints: Checkpoints | None, *, skips: bool = False
) -> HoldfastTrainError:
    """Roll back in the log if `action` and the rollbacks before allow it. Return the error that ends this attempt.

    `skips`: the next attempt can pass over the data in between.

    StorageError if the log cannot be written, FencedError if a newer attempt has started. Rank 0 alone calls it.
    """
    if checkpoints is None or action == "Stop":
        rule = "failure.nonFinite is Stop" if action == "Stop" else "there is no checkpoint storage to roll back in"
        return NonFiniteStopError(f"{fault.words}; the job ends because {rule}")
    log = checkpoints.log
    for number in range(TRIES):
        state = log.refresh()
        # A new job of the same name starts over, and so does one that a person has taken back.
        since = max(*(one.seq for one in state.rollbacks if not one.attempt), state.owner.seq if state.owner else 0, 0)
        earlier = [one for one in state.rollbacks if one.attempt and one.seq > since]
        if len(earlier) >= MOST:
            steps = ", ".join(str(one.found) for one in earlier)
            return NonFiniteStopError(
                f"{fault.words}; the job ends, because it was rolled back {len(earlier)} times before, for faults at "
                f"the steps {steps}. Look at the data and the learning rate, then create the job again"
            )
        healthy = target(state, fault)
        seq, step = (0, 0) if healthy is None else (healthy.seq, healthy.step)
        skipped = skipped_at(state, seq) + fault.last - step if skips else 0
        try:
            log.roll_back(seq, fault.words, found=fault.first, skipped=skipped)
        except FencedError:
            # The writer of this attempt may have committed since, and retired the target.
            if number == TRIES - 1 or state.fence != log.fence or log.refresh().fence != log.fence:
                raise
            continue
        where = "the start, because no checkpoint is healthy" if healthy is None else f"step {healthy.step}"
        data = f", and passes over the data up to step {fault.last}" if skips else ""
        return NonFiniteError(f"{fault.words}; the training goes back to {where}{data}")
    raise AssertionError("unreachable: the last try raises")
