"""`Environment`: the variables that the operator sets in a training pod."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from holdfast_train.errors import EnvironmentVariableError

__all__ = ["KEYS", "Credentials", "Environment", "Every", "Identity", "Spike", "parse_every", "parse_seconds"]

_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 0.000001}
_DURATION: Final = re.compile(r"(?:(?:\d+)(?:d|h|ms|us|m|s))+")
_PART: Final = re.compile(r"(\d+)(d|h|ms|us|m|s)")
_STEPS: Final = re.compile(r"(\d+) steps?")
KEYS: Final = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")  # in a Secret they begin with AWS_
DEFAULT_EVERY_SECONDS: Final = 600.0
DEFAULT_KEEP_LAST: Final = 3


@dataclass(frozen=True)
class Identity:
    """The writer of records in the log. `attempt` is the fencing token; two pods of one attempt differ in `pod_uid`."""

    namespace: str
    job: str
    job_uid: str
    attempt: int
    pod_uid: str


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
        values = (env.get(f"HOLDFAST_CHECKPOINT_{name}") or None for name in (*KEYS, "KEYS_DIR"))
        return cls(*values)

    @property
    def values(self) -> tuple[str, ...]:
        """Those of the three values that are set."""
        return tuple(filter(None, (self.access_key_id, self.secret_access_key, self.session_token)))

    def __repr__(self) -> str:
        return "Credentials(...)"  # keys must never reach a log


@dataclass(frozen=True)
class Every:
    """When to save: every `steps` steps, every `seconds` seconds, or by `auto`. Exactly one of these is set.

    `between_interruptions`: mean seconds between two interruptions on this pod's tier, which `auto` uses; None if it is
    not known. `max_lost_work`: the most lost work in seconds; it bounds the interval in every mode. None: no bound.
    """

    steps: int | None = None
    seconds: float | None = None
    auto: bool = False
    between_interruptions: float | None = None
    max_lost_work: float | None = None


@dataclass(frozen=True)
class Spike:
    """When losses explode: `steps` in a row exceed the median of the last `window` by `deviations` deviations."""

    deviations: int
    steps: int
    window: int


@dataclass(frozen=True)
class Environment:
    """The HOLDFAST_ variables of one pod. Times are in seconds. None: the variable is not set.

    `predecessor`: the attempt that still trains while this one starts. `keep_best`: how many checkpoints are kept
    because of their `keep_metric`; `keep_mode`: whether a lower or a higher value is better. `upload_rate`: the limit
    in bytes a second for uploads of this process during training, its share of the pod's limit. `pod_ip`: with several
    nodes. `peers`: another node keeps a copy of the state too. `keeper`: see KeeperMemory. `non_finite`: what is done
    if losses are not finite. `spike`: when losses explode, None if that is not watched. `resume_only`: the
    objects to restore from the address `resume`; empty: all. `slow_window`: seconds over which ranks compare their own
    times, None if they do not. `node_rank`: of this pod among those of several nodes.
    """

    identity: Identity
    checkpoint_uri: str | None
    endpoint: str | None
    region: str | None
    credentials: Credentials
    every: Every
    upload_rate: float | None
    keep_last: int
    keep_every: float | None
    keep_best: int
    keep_metric: str | None
    keep_mode: Literal["Min", "Max"]
    resume: str
    predecessor: int | None
    grace: float
    goal_steps: int | None
    nodes: int
    pod_ip: str | None
    operator_url: str | None
    token_file: str | None
    ca_file: str | None
    verdict_folder: str | None
    keeper: str | None = None
    peers: bool = False
    non_finite: Literal["Rollback", "Stop", "Ignore"] = "Ignore"
    spike: Spike | None = None
    resume_only: tuple[str, ...] = ()
    slow_window: float | None = None
    node_rank: int = 0

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> "Environment | None":
        """The pod's environment, None outside a pod. EnvironmentVariableError names a variable that is wrong."""
        env = {k: v for k, v in (os.environ if variables is None else variables).items() if v != ""}
        job = env.get("HOLDFAST_JOB")
        if job is None:
            return None
        keep_every = env.get("HOLDFAST_CHECKPOINT_KEEP_EVERY")
        best, metric = "HOLDFAST_CHECKPOINT_KEEP_BEST", "HOLDFAST_CHECKPOINT_KEEP_METRIC"
        return cls(
            identity=Identity(
                namespace=env.get("HOLDFAST_NAMESPACE", "default"),
                job=job,
                job_uid=_required(env, "HOLDFAST_JOB_UID"),
                attempt=_integer(env, "HOLDFAST_ATTEMPT", least=1) or 1,
                pod_uid=env.get("HOLDFAST_POD_UID", ""),
            ),
            checkpoint_uri=env.get("HOLDFAST_CHECKPOINT_URI"),
            endpoint=env.get("HOLDFAST_CHECKPOINT_ENDPOINT"),
            region=env.get("HOLDFAST_CHECKPOINT_REGION"),
            credentials=Credentials.read(env),
            every=_every(env),
            upload_rate=_upload_rate(env),
            keep_last=_integer(env, "HOLDFAST_CHECKPOINT_KEEP_LAST", least=1) or DEFAULT_KEEP_LAST,
            keep_every=None if keep_every is None else parse_seconds(keep_every, "HOLDFAST_CHECKPOINT_KEEP_EVERY"),
            keep_best=_integer(env, best, least=1) or 0,
            keep_metric=_required(env, metric, where=best) if best in env else None,
            keep_mode=_mode(env),
            resume=env.get("HOLDFAST_CHECKPOINT_RESUME", "Auto"),
            predecessor=_integer(env, "HOLDFAST_PREDECESSOR", least=1),
            grace=_seconds(env, "HOLDFAST_GRACE_SECONDS", 30.0),
            goal_steps=_integer(env, "HOLDFAST_GOAL_STEPS", least=0),
            nodes=_integer(env, "HOLDFAST_NODES", least=1) or 1,
            pod_ip=env.get("HOLDFAST_POD_IP"),
            operator_url=env.get("HOLDFAST_OPERATOR_URL"),
            token_file=env.get("HOLDFAST_TOKEN_FILE"),
            ca_file=env.get("HOLDFAST_CA_FILE"),
            verdict_folder=env.get("HOLDFAST_VERDICT_DIR"),
            keeper=env.get("HOLDFAST_KEEPER"),
            peers=_flag(env, "HOLDFAST_CHECKPOINT_PEERS"),
            non_finite=_non_finite(env),
            spike=_spike(env),
            resume_only=_resume_only(env),
            slow_window=_seconds(env, "HOLDFAST_SLOW_WINDOW", 0.0) or None,
            node_rank=_integer(env, "HOLDFAST_RANK", least=0) or 0,
        )


def _required(env: Mapping[str, str], name: str, where: str = "HOLDFAST_JOB") -> str:
    if name not in env:
        raise EnvironmentVariableError(f"{name} is not set; it is required if {where} is set")
    return env[name]


def _flag(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "false")
    if text not in ("true", "false"):
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: true or false")
    return text == "true"


def _mode(env: Mapping[str, str]) -> Literal["Min", "Max"]:
    name = "HOLDFAST_CHECKPOINT_KEEP_MODE"
    mode = env.get(name, "Min")
    if mode not in ("Min", "Max"):
        raise EnvironmentVariableError(f"{name} is {mode!r}; allowed: Min or Max")
    return cast("Literal['Min', 'Max']", mode)


def _non_finite(env: Mapping[str, str]) -> Literal["Rollback", "Stop", "Ignore"]:
    name = "HOLDFAST_NON_FINITE"
    action = env.get(name, "Ignore")
    if action not in ("Rollback", "Stop", "Ignore"):
        raise EnvironmentVariableError(f"{name} is {action!r}; allowed: Rollback, Stop or Ignore")
    return cast("Literal['Rollback', 'Stop', 'Ignore']", action)


def _spike(env: Mapping[str, str]) -> Spike | None:
    text = env.get(name := "HOLDFAST_SPIKE")
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6}) deviations, (\d{1,6}) steps, window (\d{1,6})", text)
    if found is None or 0 in (spike := Spike(*map(int, found.groups()))).__dict__.values():
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: such as '10 deviations, 10 steps, window 200'")
    return spike


def _resume_only(env: Mapping[str, str]) -> tuple[str, ...]:
    name, resume = "HOLDFAST_CHECKPOINT_RESUME_ONLY", env.get("HOLDFAST_CHECKPOINT_RESUME", "Auto")
    names = tuple(part.strip() for part in env.get(name, "").split(",")) if name in env else ()
    if not all(names):
        raise EnvironmentVariableError(f"{name} is {env[name]!r}; allowed: names with commas between them, as model")
    if names and resume in ("Auto", "Never"):
        raise EnvironmentVariableError(
            f"{name} is {env[name]!r} with HOLDFAST_CHECKPOINT_RESUME {resume!r}; allowed: only with an address"
        )
    return names


def _every(env: Mapping[str, str]) -> Every:
    often, most, rare = "HOLDFAST_CHECKPOINT_EVERY", "HOLDFAST_CHECKPOINT_MAX_LOSS", "HOLDFAST_SECONDS_BETWEEN_LOSSES"
    max_lost_work = parse_seconds(env[most], most) if most in env else None
    between_interruptions = _seconds(env, rare, 0.0) if rare in env else None
    for name, value in ((most, max_lost_work), (rare, between_interruptions)):
        if value == 0:
            raise EnvironmentVariableError(f"{name} is {env[name]!r}; allowed: more than 0")
    return replace(
        parse_every(env.get(often, "auto"), often),
        between_interruptions=between_interruptions,
        max_lost_work=max_lost_work,
    )


def _upload_rate(env: Mapping[str, str]) -> float | None:
    """This rank's share of the pod's rate. torchrun sets the number of ranks."""
    rate = _integer(env, "HOLDFAST_CHECKPOINT_UPLOAD_RATE", least=1)
    return None if rate is None else rate / (_integer(env, "LOCAL_WORLD_SIZE", least=1) or 1)


def _integer(env: Mapping[str, str], name: str, least: int) -> int | None:
    text = env.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: a whole number of at least {least}")
    return int(text)


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: seconds as a decimal number, such as 100")
    return float(text)


def parse_seconds(text: str, name: str) -> float:
    """`1h30m` -> 5400.0. EnvironmentVariableError names the variable `name`."""
    if not _DURATION.fullmatch(text):
        raise EnvironmentVariableError(f"{name} is {text!r}; allowed: a duration such as 90s, 10m, 1h30m, 24h")
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def parse_every(text: str, name: str) -> Every:
    """`500 steps`, `10m` or `auto`. EnvironmentVariableError names the variable `name`."""
    if text == "auto":
        return Every(auto=True)
    steps = _STEPS.fullmatch(text)
    if steps and int(steps.group(1)) > 0:
        return Every(steps=int(steps.group(1)))
    if steps is None and _DURATION.fullmatch(text) and parse_seconds(text, name) > 0:
        return Every(seconds=parse_seconds(text, name))
    raise EnvironmentVariableError(f"{name} is {text!r}; allowed: auto, '500 steps', or a duration such as 10m")
