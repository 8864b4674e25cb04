"""Which pods and attempts a person asked for, and which logs are not there any more. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.errors import ScalarError
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_ranks, parse_ranks
from holdfast.core.observe.pods import PodView
from holdfast_cli.errors import CliError, ExitCode

ALL: Final = "all"
MOST_RANKS: Final = 90  # each is a connection, and the client has a hundred


@dataclass(frozen=True, slots=True)
class Choice:
    """What is read. `attempt` None: of all attempts. `since` in seconds; `tail` in lines of each rank."""

    ranks: tuple[int, ...]
    attempt: int | None = None
    since: int | None = None
    tail: int | None = None
    grep: bytes = b""

    def has(self, attempt: int) -> bool:
        """True if lines of this attempt are asked for."""
        return self.attempt in (None, attempt)


def ranks_of(job: TrainingJob, text: str) -> tuple[int, ...]:
    """The ranks of pods that `--rank` names. Raises CliError if the job has no such rank, or they are too many."""
    nodes = job.most_nodes
    try:
        found = tuple(range(nodes)) if text == ALL else parse_ranks(text)
    except ScalarError as error:
        raise CliError(f"--rank: {error}, or all", code=ExitCode.USAGE) from error
    if found[-1] >= nodes:
        last = f"ranks 0 to {nodes - 1}" if nodes > 1 else "one node, so rank 0 alone"
        raise CliError(f"--rank {text}: {job.metadata.name} has {last}", code=ExitCode.USAGE)
    if len(found) > MOST_RANKS:
        hint = f"--rank 0-{MOST_RANKS - 1}"
        raise CliError(f"--rank {text}: {len(found)} ranks at once; at most {MOST_RANKS}", hint=hint)
    return found


def refuse_attempt(job: TrainingJob, number: int, *, to_come: bool) -> None:
    """Raises CliError if the attempt has no log, and none comes. `to_come`: a later attempt is waited for."""
    status, name = job.status, job.metadata.name
    if number > status.attempt and (status.is_over or not to_come):
        newest = f"the newest is attempt {status.attempt}" if status.attempt else "it has none yet"
        raise CliError(f"{name} has no attempt {number}: {newest}", code=ExitCode.NOT_FOUND)
    record = next((one for one in status.history if one.number == number), None)
    if record is not None and record.started_at is None:
        why = f"{record.reason}: {record.message}" if record.message else record.reason
        raise CliError(f"attempt {number} ended before its program started: {why}", code=ExitCode.NOT_FOUND)


def has_started(pod: PodView) -> bool:
    """True if its trainer has a log."""
    return pod.trainer is not None and (pod.trainer.running or pod.trainer.ended)


def pods_of(pods: Sequence[PodView], rank: int, attempt: int | None = None) -> list[PodView]:
    """The pods of a rank that have logs, oldest first; only those that may have worked for the attempt."""
    mine = [pod for pod in pods if pod.rank == rank and has_started(pod)]
    if attempt is not None:
        mine = [pod for pod in mine if pod.attempt == attempt or (pod.outlives and pod.attempt < attempt)]
    return sorted(mine, key=lambda pod: pod.attempt)


def missing_attempts(job: TrainingJob, pods: Sequence[PodView], rank: int) -> tuple[int, ...]:
    """Attempts that ran, and of which no log of this rank is there any more.

    A pod of several nodes works for later attempts too, so only those before the oldest pod are known to be missing.
    """
    there = {pod.attempt: pod for pod in pods_of(pods, rank)}
    never_ran = {one.number for one in job.status.history if one.started_at is None}
    live = {one.number for one in (job.status.current, job.status.successor) if one is not None}
    found = []
    for number in range(1, job.status.attempt + 1):
        if any(pod.outlives for born, pod in there.items() if born <= number):
            break
        if number not in there and number not in never_ran and number not in live:
            found.append(number)
    return tuple(found)


def missing_words(numbers: Sequence[int]) -> str:
    """That these logs are gone."""
    which = f"attempts {format_ranks(numbers)}" if len(numbers) > 1 else f"attempt {numbers[0]}"
    return f"not there any more: the log of {which}; pods that are deleted take their logs along"
