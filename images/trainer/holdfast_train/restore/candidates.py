"""What a starting attempt does with the storage: own the prefix, raise the fence, choose what to resume from."""

from holdfast_train.commitlog.checkpoints import Checkpoints, Found
from holdfast_train.commitlog.retention import keep_of
from holdfast_train.environment import Environment
from holdfast_train.errors import EnvironmentVariableError, NoCheckpointError, StorageError
from holdfast_train.format.names import resolve
from holdfast_train.restore.source import Source, source
from holdfast_train.say import say
from holdfast_train.storage.opening import START_PATIENCE, open_patient
from holdfast_train.storage.retrying import Patient

__all__ = ["Candidates", "start"]


def start(environment: Environment, storage: Patient) -> Checkpoints:
    """Own the prefix and raise the fence: from here on no older attempt can commit. Errors: see `log.check_fence`."""
    if environment.resume not in ("Auto", "Never") and "://" not in environment.resume:
        raise EnvironmentVariableError(
            f"HOLDFAST_CHECKPOINT_RESUME is {environment.resume!r}; allowed: Auto, Never, or a checkpoint's address"
        )
    checkpoints = Checkpoints(storage, environment.identity, keep_of(environment), say)
    with storage.within(START_PATIENCE):
        checkpoints.start(environment.resume)
    return checkpoints


class Candidates:
    """What rank 0 may resume from, newest first: the job's own checkpoints; before it has any, what `resume` names."""

    def __init__(self, environment: Environment, storage: Patient, checkpoints: Checkpoints) -> None:
        self._environment = environment
        self._storage = storage
        self._source: Source = checkpoints
        self._own = True

    def newest(self) -> Found | None:
        """As Source. None: start from nothing."""
        with self._storage.within(START_PATIENCE):
            found = self._source.newest()
        # The address counts once, at the beginning: afterwards the job goes on from checkpoints of its own.
        if found is not None or not self._own or "://" not in self._environment.resume:
            return found
        prefix, name = resolve(self._environment.resume)
        self._own = False
        self._storage = open_patient(self._environment, prefix)
        try:
            with self._storage.within(START_PATIENCE):
                self._source = source(self._storage, name)
        except NoCheckpointError as error:
            raise NoCheckpointError(f"checkpoint.resume: {error}") from error
        return self.newest()

    def pass_over(self, found: Found, error: StorageError) -> None:
        """As Source."""
        with self._storage.within(START_PATIENCE):  # it goes into quarantine: that is a record in the log
            self._source.pass_over(found, error)

    def accept(self, found: Found) -> str:
        """As Source."""
        return self._source.accept(found)
