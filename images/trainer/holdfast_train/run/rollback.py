"""What a run does about a fault of its losses: it goes back to the newest healthy checkpoint, or ends for good."""

from typing import Final, Literal, NoReturn

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.records import HEALTHY_STEPS, Commit, LogState
from holdfast_train.errors import FencedError, HoldfastTrainError, NonFiniteError, NonFiniteStopError
from holdfast_train.ranks import Ranks
from holdfast_train.run.finite import Fault
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage

__all__ = ["decide", "raise_fault", "target"]

NonFinite = Literal["Rollback", "Stop", "Ignore"]
MOST: Final = 2  # rollbacks of one job by its attempts; the next fault ends the job
TRIES: Final = 3


def target(state: LogState, fault: Fault) -> Commit | None:
    """The newest healthy commit, None if there is none.

    A commit is healthy by the log, or because HEALTHY_STEPS steps after it were clean before the fault.
    """

    def is_healthy(commit: Commit) -> bool:
        steps = fault.first - 1 - commit.step
        return commit.healthy or HEALTHY_STEPS <= steps <= fault.clean

    return next((c for c in reversed(state.commits) if not c.corrupt and is_healthy(c)), None)


def raise_fault(
    action: NonFinite,
    fault: Fault | None,
    ranks: Ranks,
    checkpoints: Checkpoints | None,
    storage: RetryingStorage | None,
) -> NoReturn:
    """End the attempt on all ranks, because one or more of them have a `fault`. Every rank calls it at the same step.

    Rank 0, which alone has the `checkpoints`, rolls back in the log first.
    """
    known = ranks.share(_first([one for one in ranks.gather(fault) if one is not None]))

    def act() -> HoldfastTrainError:
        assert known is not None
        if storage is None:
            return decide(action, known, None)
        with storage.within(PATIENCE_SECONDS):
            return decide(action, known, checkpoints)

    error: HoldfastTrainError = ranks.from_first(act)
    raise error


def _first(faults: list[Fault]) -> Fault | None:
    """The fault with the earliest step; None on ranks to which none was gathered."""
    return min(faults, key=lambda fault: fault.first, default=None)


def decide(action: NonFinite, fault: Fault, checkpoints: Checkpoints | None) -> HoldfastTrainError:
    """Roll back in the log if `action` and the rollbacks before allow it. Return the error that ends this attempt.

    StorageError if the log cannot be written, FencedError if a newer attempt has started. Rank 0 alone calls it.
    """
    if checkpoints is None or action == "Stop":
        rule = "failure.nonFinite is Stop" if action == "Stop" else "there is no checkpoint storage to roll back in"
        return NonFiniteStopError(f"{fault.words}; the job ends because {rule}")
    log = checkpoints.log
    for number in range(TRIES):
        state = log.refresh()
        owned = 0 if state.owner is None else state.owner.seq
        earlier = [one for one in state.rollbacks if one.attempt and one.seq > owned]
        if len(earlier) >= MOST:
            steps = ", ".join(str(one.found) for one in earlier)
            return NonFiniteStopError(
                f"{fault.words}; the job ends, because it was rolled back {len(earlier)} times before, for faults at "
                f"the steps {steps}. Look at the data and the learning rate, then create the job again"
            )
        healthy = target(state, fault)
        try:
            log.roll_back(0 if healthy is None else healthy.seq, fault.words, found=fault.first)
        except FencedError:
            # The writer of this attempt may have committed since, and retired the target.
            if number == TRIES - 1 or state.fence != log.fence or log.refresh().fence != log.fence:
                raise
            continue
        where = "the start, because no checkpoint is healthy" if healthy is None else f"step {healthy.step}"
        return NonFiniteError(f"{fault.words}; the training goes back to {where}")
    raise AssertionError("unreachable: the last try raises")
