"""The TrainingJob of a run. Pure."""

from collections.abc import Sequence
from datetime import datetime
from posixpath import normpath
from typing import Any, Final, TypeVar

from holdfast.api.errors import ScalarError
from holdfast.api.names import API_VERSION, CODE_PATH, JOB_KIND
from holdfast.api.scalars import format_time, parse_duration
from holdfast.api.storage import Storage
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.run.wanted import Wanted

T = TypeVar("T")
HINT: Final = (
    "give {option}, write it into holdfast.toml, or let the platform team set spec.defaults of the CapacityProfile"
)


def manifest(
    wanted: Wanted,
    *,
    namespace: str,
    command: Sequence[str],
    code: str,
    now: datetime,
    dependencies: str | None = None,
    resume: str = "Auto",
) -> dict[str, Any]:
    """The job as it is applied. `wanted.name` is set. CliError if something is missing.

    `code`, `dependencies`: the hashes of the folder, and of the list of packages. `now`: from which a deadline counts
    that is a duration.
    """
    said = wanted.to_object()
    storage = storage_of_job(wanted, namespace)
    resources = _set(cpu=said.get("cpu"), memory=said.get("memory"))
    data = [{"from": source, "to": to} for to, source in wanted.data.items()]
    env = [{"name": name, "value": value} for name, value in wanted.env.items()]
    trainer = _set(
        image=_needed(wanted.image, "an image", "--image"),
        command=list(command),
        code=_set(sha256=code, dependencies=dependencies),
        env=env,
        envFrom=[{"secretRef": {"name": name}} for name in wanted.secrets],
        data=data,
        nodes=wanted.nodes,
        acceleratorsPerNode=wanted.gpus,
        resources=resources,
    )
    capacity = _set(
        profile=_needed(wanted.profile, "a profile", "--profile"),
        deadline=_deadline(wanted.deadline, now),
        budget=said.get("budget"),
    )
    checkpoint = _set(
        storage=storage.to_object(),
        every=said.get("every"),
        folder=_in_code(wanted.folder),
        resume=None if resume == "Auto" else resume,
    )
    spec = _set(
        trainer=trainer,
        capacity=capacity,
        checkpoint=checkpoint,
        goal=_set(steps=wanted.steps),
        progress=_set(patterns=list(wanted.progress)),
    )
    metadata = {"name": wanted.name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": metadata, "spec": spec}


def storage_of_job(wanted: Wanted, namespace: str) -> Storage:
    """Where the checkpoints and the code of the job are: below {prefix}/{namespace}/{name}. CliError without one."""
    storage = _needed(wanted.storage, "a storage for checkpoints and code", "--storage")
    if storage.s3 is None:
        raise CliError(
            "the storage is a volumeClaim, which only pods can mount, so the folder of the program cannot be sent",
            hint="give --storage s3://BUCKET/PREFIX, or build an image and apply a TrainingJob",
        )
    return storage.below(f"{namespace}/{wanted.name}")


def _needed(value: T | None, what: str, option: str) -> T:
    if value is None:
        raise CliError(f"{what} is missing", code=ExitCode.USAGE, hint=HINT.format(option=option))
    return value


def _in_code(folder: str | None) -> str | None:
    """The path in the pod: a relative one is below the folder of the program. CliError for that folder itself."""
    if folder is None:
        return None
    path = normpath(f"{CODE_PATH}/{folder}" if not folder.startswith("/") else folder)
    if path == CODE_PATH or not folder:
        raise CliError(
            f"--folder {folder}: the program writes its saves into the folder of its own files, which are read-only",
            code=ExitCode.USAGE,
            hint="let it write into a folder below, such as --folder outputs",
        )
    return path


def _deadline(text: str | None, now: datetime) -> str | None:
    """A duration counts from `now`; anything else is a moment, which the API server checks."""
    if text is None:
        return None
    try:
        return format_time(now + parse_duration(text))
    except ScalarError:
        return text


def _set(**fields: Any) -> dict[str, Any]:
    """Those fields that say something: 0 does, and empty text, lists and maps do not."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}
