"""What a starting attempt does with the storage: own the prefix, raise the fence, choose what to resume from."""

from typing import Final

from holdfast_train.checkpoints import Checkpoints, Restored, load, resolve
from holdfast_train.environment import Environment
from holdfast_train.errors import EnvironmentVariableError, NoCheckpointError, StorageError
from holdfast_train.log import Keep
from holdfast_train.manifest import manifest_key
from holdfast_train.say import say
from holdfast_train.storage import Patient, open_storage

__all__ = ["START_PATIENCE", "choose", "keep_of", "load_from", "open_patient", "start"]

START_PATIENCE: Final = 60.0  # seconds to try a storage that does not answer


def open_patient(environment: Environment, uri: str) -> Patient:
    """The storage at `uri`, with the job's endpoint and keys. StorageInvalidError if `uri` is not an address."""
    return Patient(
        open_storage(uri, endpoint=environment.endpoint, region=environment.region, credentials=environment.credentials)
    )


def keep_of(environment: Environment) -> Keep:
    """What the job wants to keep."""
    return Keep(
        environment.keep_last,
        environment.keep_every,
        environment.keep_best,
        environment.keep_metric,
        environment.keep_mode,
    )


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


def choose(environment: Environment, storage: Patient, checkpoints: Checkpoints) -> Restored | None:
    """The job's newest checkpoint that holds; before it has any, what `resume` names. None: start from nothing."""
    with storage.within(START_PATIENCE):
        restored = checkpoints.restore()
    # The address counts once, at the beginning: afterwards the job goes on from checkpoints of its own.
    if restored is not None or "://" not in environment.resume:
        return restored
    uri = environment.resume
    prefix, name = resolve(uri)
    if name is not None:
        try:
            return load_from(environment, uri)
        except StorageError as error:
            raise NoCheckpointError(f"checkpoint.resume: {uri} cannot be resumed from: {error}") from error
    other = open_patient(environment, prefix)
    elsewhere = Checkpoints(other, environment.identity, Keep(), say)
    with other.within(START_PATIENCE):
        elsewhere.log.refresh()
        restored = elsewhere.restore()
    if restored is None:
        raise NoCheckpointError(f"checkpoint.resume: {uri} holds no checkpoint")
    return restored


def load_from(environment: Environment, uri: str) -> Restored:
    """The checkpoint whose manifest is at `uri`. A StorageError if it does not hold."""
    prefix, name = resolve(uri)
    storage = open_patient(environment, prefix)
    with storage.within(START_PATIENCE):
        return load(storage, storage.get(manifest_key(name or "")), name or "")
