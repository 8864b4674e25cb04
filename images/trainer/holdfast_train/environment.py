"""`Environment`: what a training pod knows of its job, from the variables that the operator sets."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast_protocol import settings, variables
from holdfast_protocol.document import DocumentError
from holdfast_protocol.settings import Settings
from holdfast_train.errors import EnvironmentVariableError
from holdfast_train.timings import USUAL, Timings

LOCAL_RANKS: Final = "LOCAL_WORLD_SIZE"  # torchrun sets it: processes of this pod


@dataclass(frozen=True)
class Identity:
    """The writer of records in the log. `attempt` is the fencing token; two pods of one attempt differ in `pod_uid`."""

    namespace: str
    job: str
    job_uid: str
    attempt: int
    pod_uid: str

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name of the job."""
        return self.namespace, self.job


@dataclass(frozen=True)
class Credentials:
    """Keys of the S3 store. Without keys, boto3 searches its own chain (workload identity, profile).

    `folder`: of a mounted Secret. Its files, as soon as they are there, replace the three values, and are read again.
    """

    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    folder: str | None = None

    @classmethod
    def read(cls, env: Mapping[str, str]) -> "Credentials":
        """The keys of the pod. All are None outside a pod, and if the job names no Secret."""
        key_id, secret, token = (env.get(variables.of_key(key)) or None for key in variables.KEYS)
        return cls(key_id, secret, token, read_settings(env).keys_folder)

    @property
    def values(self) -> tuple[str, ...]:
        """Those of the three values that are set."""
        return tuple(filter(None, (self.access_key_id, self.secret_access_key, self.session_token)))

    def __repr__(self) -> str:
        return "Credentials(...)"  # keys must never reach a log


@dataclass(frozen=True)
class Environment:
    """What one pod is told. None: the variable is not set.

    `predecessor`: the attempt that still trains while this one starts. `pod_ip`: with several nodes. `node_rank`: of
    this pod among those of several nodes. `keeper`: see KeeperMemory. `ranks`: processes of this pod. `timings`: a pod
    has the usual ones.
    """

    identity: Identity
    settings: Settings
    credentials: Credentials
    predecessor: int | None
    goal_steps: int | None
    nodes: int
    node_rank: int
    pod_ip: str | None
    verdict_folder: str | None
    keeper: str | None
    ranks: int
    timings: Timings = USUAL

    @property
    def upload_rate(self) -> float | None:
        """The limit in bytes a second for uploads of this process during training: its share of the pod's limit."""
        rate = self.settings.upload_rate
        return None if rate is None else rate / self.ranks

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> "Environment | None":
        """The pod's environment, None outside a pod. EnvironmentVariableError names what is wrong."""
        env = {k: v for k, v in (os.environ if environment is None else environment).items() if v != ""}
        if not is_in_pod(env):
            return None
        job, uid = env[variables.JOB], env.get(variables.JOB_UID)
        if uid is None:
            raise EnvironmentVariableError(f"{variables.JOB_UID} is not set; it is required if {variables.JOB} is set")
        attempt, pod_uid = _integer(env, variables.ATTEMPT, least=1) or 1, env.get(variables.POD_UID, "")
        return cls(
            identity=Identity(env.get(variables.NAMESPACE, "default"), job, uid, attempt, pod_uid),
            settings=read_settings(env),
            credentials=Credentials.read(env),
            predecessor=_integer(env, variables.PREDECESSOR, least=1),
            goal_steps=_integer(env, variables.GOAL_STEPS, least=0),
            nodes=_integer(env, variables.NODES, least=1) or 1,
            node_rank=_integer(env, variables.RANK, least=0) or 0,
            pod_ip=env.get(variables.POD_IP),
            verdict_folder=env.get(variables.VERDICT_DIR),
            keeper=env.get(variables.KEEPER),
            ranks=_integer(env, LOCAL_RANKS, least=1) or 1,
        )


def is_in_pod(environment: Mapping[str, str] | None = None) -> bool:
    """True in a training pod, also if something in its environment is wrong: a Run names it, in a verdict too."""
    return bool((os.environ if environment is None else environment).get(variables.JOB))


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings of the pod, the defaults outside one. EnvironmentVariableError names the field that is wrong."""
    try:
        return settings.read(environment)
    except DocumentError as error:
        raise EnvironmentVariableError(str(error)) from error


def _integer(env: Mapping[str, str], name: str, least: int) -> int | None:
    text = env.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: a whole number of at least {least}")
    return int(text)
