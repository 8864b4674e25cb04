"""The start of an attempt in the storage: own the prefix, raise the fence, choose a checkpoint to resume."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from holdfast_train.commitlog.checkpoints import Checkpoints, Found
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment
from holdfast_train.errors import EnvironmentVariableError, NoCheckpointError, StorageError
from holdfast_train.format.names import resolve
from holdfast_train.restore.memory_checkpoints import IN_MEMORY, MemoryCheckpoints, offers
from holdfast_train.restore.source import CheckpointSource, source_of
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage


def start(environment: Environment, storage: RetryingStorage) -> Checkpoints:
    """Own the prefix and raise the fence: after this no older attempt can commit. Errors: see `rules`."""
    resume = environment.settings.resume
    if resume not in ("Auto", "Never") and "://" not in resume:
        raise EnvironmentVariableError(
            f"checkpoint.resume is {resume!r}; allowed: Auto, Never, or a checkpoint's address"
        )
    if resume.rstrip("/") == storage.uri.rstrip("/"):
        # A takeover with an address sets all earlier checkpoints of the prefix aside: none would be left to resume.
        raise EnvironmentVariableError(
            f"checkpoint.resume is {resume}, the prefix of this job itself; set it to Auto to resume the "
            f"newest checkpoint there, or to the address of one checkpoint or of another prefix"
        )
    checkpoints = Checkpoints(storage, environment.identity, environment.settings.keep, say)
    with storage.within(PATIENCE_SECONDS):
        checkpoints.start(resume)
    return checkpoints


def completed(environment: Environment, storage: RetryingStorage, step: int) -> CheckpointSource:
    """The checkpoint of a training that is complete at `step`, and no other one. NoCheckpointError if it is gone."""
    with storage.within(PATIENCE_SECONDS):
        commits = CommitLog(storage, environment.identity).refresh().commits
    name = next((commit.name for commit in reversed(commits) if commit.step == step), None)
    if name is None:
        at = f" at step {step}" if step else ""
        raise NoCheckpointError(f"training is complete{at}, and its last checkpoint is not in {storage.uri}")
    return source_of(storage, name)


class Candidates:
    """The checkpoints that rank 0 may resume, newest first: the job's own, or if there are none those of `resume`.

    `in_memory`: those of which only the memory of the nodes has all, newest first. They come before all others.
    """

    def __init__(
        self,
        environment: Environment,
        storage: RetryingStorage,
        checkpoints: CheckpointSource,
        in_memory: Iterable[Found] = (),
    ) -> None:
        self._environment = environment
        self._storage = storage
        self._source = checkpoints
        self._own = True
        self._in_memory = deque(in_memory)

    @classmethod
    def own(
        cls, environment: Environment, storage: RetryingStorage, checkpoints: Checkpoints, copies: MemoryCheckpoints
    ) -> "Candidates":
        """The candidates of an attempt that has raised its fence. Those of `copies` that it may use come first."""
        return cls(environment, storage, checkpoints, offers(copies, checkpoints.log.state, storage.uri))

    def newest(self) -> Found | None:
        """As CheckpointSource. None: start without a checkpoint."""
        if self._in_memory:
            return self._in_memory[0]
        with self._storage.within(PATIENCE_SECONDS):
            found = self._source.newest()
        if found is not None and not self._own:
            return replace(found, only=self._environment.settings.resume_only)
        # The address counts only until the job has a checkpoint of its own.
        if found is not None or not self._own or "://" not in self._environment.settings.resume:
            return found
        prefix, name = resolve(self._environment.settings.resume)
        self._own = False
        self._storage = open_retrying(self._environment, prefix)
        try:
            with self._storage.within(PATIENCE_SECONDS):
                self._source = source_of(self._storage, name)
        except NoCheckpointError as error:
            raise NoCheckpointError(f"checkpoint.resume: {error}") from error
        return self.newest()

    def report_broken(self, found: Found, error: StorageError) -> None:
        """As CheckpointSource."""
        if found.seq == IN_MEMORY:
            self._in_memory.popleft()
            say(f"the copy of step {found.manifest.step} in the memory of the nodes is not whole: {error}")
            return
        with self._storage.within(PATIENCE_SECONDS):  # this may append a record to the log
            self._source.report_broken(found, error)

    def accept(self, found: Found) -> str:
        """As CheckpointSource."""
        if found.seq == IN_MEMORY:
            return "the memory of the nodes had all of it; no checkpoint of this step was committed"
        return self._source.accept(found)
