"""Open the storage that was typed: that of a job in the cluster, or a storage address."""

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.api.job import Keep
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.api.storage import S3Storage
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.storage.ca_file import ca_file
from holdfast_protocol.settings import Addressing
from holdfast_protocol.variables import KEYS
from holdfast_train.environment import Credentials
from holdfast_train.errors import (
    HoldfastTrainError,
    StorageDeniedError,
    StorageNotFoundError,
    StorageProxyFailedError,
    StorageUnreachableError,
    StorageUntrustedError,
)
from holdfast_train.format.names import CheckpointName, resolve
from holdfast_train.restore.source import address
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3_server import S3Server, endpoint_of_person

PATIENCE: Final = 15.0  # seconds that a storage may not answer
_HINTS: Final[Mapping[type[HoldfastTrainError], str]] = {
    StorageDeniedError: "these keys are wrong or lack this right",
    StorageNotFoundError: "check the name of the bucket or folder",
    StorageUntrustedError: "give the certificates of its CA with --ca FILE",
    StorageProxyFailedError: "give the way from here with --proxy: the URL of a proxy, or none",
    StorageUnreachableError: "if the address works only in the cluster, forward a port to it and give --endpoint",
}
NO_PROXY: Final = "none"  # what --proxy may be besides a URL
_OWN: Final = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"


@dataclass(frozen=True, slots=True)
class Where:
    """The place on the command line. `place` is a job's name, an address, or the path of a folder."""

    place: str
    namespace: str | None = None
    kubeconfig: Path | None = None
    endpoint: str | None = None
    region: str | None = None
    ca: Path | None = None
    proxy: str | None = None
    addressing: Addressing | None = None

    @property
    def is_address(self) -> bool:
        """True if no cluster is needed: a job's name has no slash and does not begin with `.` or `~`."""
        return "/" in self.place or self.place.startswith((".", "~"))


class OfJob(NamedTuple):
    """The job whose name was typed. `phase`: None if the operator has not seen it yet."""

    namespace: str
    name: str
    phase: Phase | None


@dataclass(frozen=True, slots=True)
class Found:
    """A place that was found. `name`: the checkpoint in the address, if any; `keep`: the job's retention.

    `job`: None if an address was typed. `notes` are for people: what could not be read, and what is used instead.
    """

    uri: str
    name: CheckpointName | None = None
    server: S3Server = field(default_factory=S3Server)
    keep: Keep | None = None
    notes: tuple[str, ...] = ()
    job: OfJob | None = None

    def open(self) -> RetryingStorage:
        """The storage; nothing is contacted yet. StorageInvalidError if the address cannot be parsed."""
        return RetryingStorage(open_storage(self.uri, self.server))


@contextmanager
def opened(where: Where) -> Iterator[tuple[Found, RetryingStorage]]:
    """The storage of a place. Errors of the cluster and of the storage inside become CliErrors."""
    found = find(where)
    with explained():
        storage = found.open()
        with storage.within(PATIENCE):
            yield found, storage


def find(where: Where) -> Found:
    """Look a place up. Raises CliError."""
    if where.is_address:
        return _address(where)
    return asyncio.run(find_job(where))


def _address(where: Where) -> Found:
    with explained():
        uri, name = resolve(address(where.place))
    if not uri.startswith("s3://"):
        return Found(uri, name)
    if not has_own_credentials():
        raise CliError(f"there are no AWS credentials for {uri}", code=ExitCode.FORBIDDEN, hint=_OWN)
    return Found(uri, name, _asked(S3Server.of_person(where.endpoint or endpoint_of_person()), where))


async def find_job(where: Where) -> Found:
    """Look up the storage of a job in the cluster. Raises CliError."""
    target = Target(where.kubeconfig, where.namespace)
    async with connect(target) as client:
        job = await job_api.get_job(client, target.resolved_namespace(), where.place)
        return await storage_of(client, job, where)


async def storage_of(client: Client, job: TrainingJob, where: Where) -> Found:
    """The storage of a job. CliError if it cannot be reached from here.

    The user's own keys never go to an endpoint that only the job names: its author chose it. With `where.endpoint` the
    user chooses it. For the same reason they never go through the job's proxy, nor does its CA count for them.
    """
    meta, checkpoint = job.metadata, job.spec.checkpoint
    s3 = checkpoint.storage.s3
    if s3 is None:
        claim = checkpoint.storage.volume_claim
        assert claim is not None
        raise CliError(
            f"the checkpoints of {meta.name} are in the PersistentVolumeClaim {claim.name}, which only pods can mount",
            hint=f"in a pod that mounts it at /mnt: holdfast checkpoints list file:///mnt/{claim.path}",
        )
    credentials, why = await _credentials(client, meta.namespace, s3)
    server = S3Server.of_person(where.endpoint or s3.endpoint).with_options(region=s3.region, addressing=s3.addressing)
    notes: tuple[str, ...] = ()
    if credentials is None:
        await asyncio.to_thread(_check_own_keys, s3, where, f"{why}, and " if why else "")
        notes = (f"{why}; your own AWS credentials are used",) if why else ()
    else:
        # With where.endpoint the person chooses another way to the server, such as a forwarded port.
        proxy = None if where.endpoint else s3.proxy
        ca = str(await ca_file(client, meta.namespace, s3.ca)) if s3.ca and where.ca is None else None
        server = server.with_options(credentials=credentials, proxy=proxy, ca=ca)
    return Found(
        uri=checkpoint.storage.uri,
        server=_asked(server, where),
        keep=checkpoint.keep,
        notes=notes,
        job=OfJob(meta.namespace, meta.name, job.status.phase),
    )


def _check_own_keys(s3: S3Storage, where: Where, before: str) -> None:
    """CliError if the user has no keys, or they would go to an endpoint that only the job names."""
    if s3.endpoint is not None and where.endpoint is None:
        raise CliError(
            f"{before}your own AWS credentials are not sent to {s3.endpoint}, which the job names",
            code=ExitCode.FORBIDDEN,
            hint=f"if you trust that address with your keys: --endpoint {s3.endpoint} "
            "(holdfast report, checkpoints and describe --history)",
        )
    if not has_own_credentials():
        raise CliError(f"{before}there are no AWS credentials of your own", code=ExitCode.FORBIDDEN, hint=_OWN)


def _asked(server: S3Server, where: Where) -> S3Server:
    """The server, reached as the command line says."""
    ca = str(where.ca) if where.ca else None
    asked = server.with_options(region=where.region, ca=ca, proxy=where.proxy, addressing=where.addressing)
    return replace(asked, proxy=None) if where.proxy == NO_PROXY else asked


async def _credentials(client: Client, namespace: str, s3: S3Storage) -> tuple[Credentials | None, str]:
    """The keys in the job's Secret; otherwise None, and why not. Raises ApiError."""
    name = s3.credentials_secret
    if name is None:
        return None, ""
    try:
        secret = await client.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except ApiError as error:
        if error.status == 403:
            return None, f"you may not read the job's keys (it takes the right to get secrets/{name} in {namespace})"
        if error.status == 404:
            return None, f"the Secret {namespace}/{name} with the job's keys does not exist"
        raise
    return _decoded(secret.get("data") or {}, f"{namespace}/{name}")


def _decoded(data: Mapping[str, Any], name: str) -> tuple[Credentials | None, str]:
    try:
        key, secret, token = (base64.b64decode(data.get(k) or "", validate=True).decode() for k in KEYS)
    except (binascii.Error, UnicodeDecodeError, TypeError):
        return None, f"the Secret {name} cannot be read"
    if not key or not secret:
        return None, f"the Secret {name} lacks {KEYS[0] if not key else KEYS[1]}"
    return Credentials(key, secret, token or None), ""


def has_own_credentials() -> bool:
    """True if the usual AWS chain (environment, profile, workload identity) finds keys."""
    import boto3  # noqa: PLC0415 - takes half a second, which `holdfast watch` should not wait for
    import botocore.exceptions  # noqa: PLC0415

    try:
        return boto3.session.Session().get_credentials() is not None
    except botocore.exceptions.BotoCoreError as error:
        raise CliError(f"your own AWS credentials cannot be used: {error}", hint=_OWN) from error


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error of the storage or of a checkpoint into a CliError that says what to do."""
    try:
        yield
    except HoldfastTrainError as error:
        raise explain(error) from error


def explain(error: HoldfastTrainError) -> CliError:
    """The CliError for an error of holdfast_train."""
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "")
    return CliError(str(error), code=ExitCode(error.command_code), hint=hint)
