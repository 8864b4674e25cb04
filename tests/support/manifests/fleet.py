"""Many jobs in all phases, and their profile, as the API server gives them: for pages that show them all."""

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.manifests.observed_jobs import RUNNING, raw_job

from holdfast.api.scalars import parse_time
from holdfast.core.observe.digest import digest

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
PROFILES = "/apis/holdfast.dev/v1alpha1/capacityprofiles"
EVENTS = "/api/v1/namespaces/demo/events"
_FAMILIES = ("vit-faces", "llm-7b-base", "llm-7b-chat", "whisper-de", "diffusion-xl", "recsys-night", "protein-fold")
_PHASES = (
    ("Running",) * 9
    + ("Acquiring", "Starting", "Migrating", "Recovering", "Suspended")
    + ("Completed",) * 5
    + ("Failed",)
)
_REASONS = {"Failed": "MaxFailuresReached", "Suspended": "Suspended", "Acquiring": "WaitingForNode"}
OBSERVED = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)  # the time of RUNNING
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_TIERS = ("spot-h100", "spot-a100", "dedicated", "cpu")


def stamp(at: datetime) -> str:
    """As the API server writes a time."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def fleet(count: int, now: datetime) -> list[dict[str, Any]]:
    """Jobs in namespace `demo`, the same ones for the same count; the last one is the newest."""
    chance = random.Random(count)
    return [_job(number, count, now, chance) for number in range(count)]


def _job(number: int, count: int, now: datetime, chance: random.Random) -> dict[str, Any]:
    phase, tier = chance.choice(_PHASES), chance.choice(_TIERS)
    steps = chance.choice((12_000, 40_000, 250_000))
    step = {"Completed": steps, "Acquiring": 0, "Starting": 0}.get(phase, int(steps * chance.random()))
    spent = step / steps * chance.uniform(40, 900)
    final, active = phase in ("Completed", "Failed"), phase in ("Running", "Migrating")
    born = now - timedelta(minutes=(count - number) * 37 + 5)
    eta = now + timedelta(minutes=chance.uniform(20, 3000))
    forecast: dict[str, Any] = {"cost": f"{spent * steps / max(step, 1):.2f}"} if step else {}
    if active and chance.random() < 0.5:
        forecast |= {"late": "2h5m"} if chance.random() < 0.15 else {"slack": f"{chance.randint(0, 70)}h10m"}
    status = {
        "phase": phase,
        "attempt": 1 + chance.randint(0, 4),
        "reason": _REASONS.get(phase),
        "progress": {"step": step, "steps": steps, "loss": "2.113"} | ({"eta": stamp(eta)} if active else {}),
        "restarts": {"interruptions": chance.choice((0, 0, 0, 1, 2, 5)), "infrastructure": 0, "failures": 0},
        "ledger": {"spent": f"{spent:.4f}"},
        "forecast": forecast,
    }
    if not final and phase != "Suspended":
        status |= {"tier": tier, "node": f"{tier}-{chance.randint(1, 40)}"}
    status = {name: value for name, value in status.items() if value is not None}
    name = f"{chance.choice(_FAMILIES)}-{number:04}"
    return named(raw_job(status=status, capacity={"profile": "gpus"}, goal={"steps": steps}), name, born)


def named(job: dict[str, Any], name: str, born: datetime) -> dict[str, Any]:
    """The job under another name, created then."""
    job["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": stamp(born)}
    return job


def hero(now: datetime) -> dict[str, Any]:
    """A job that runs since three minutes, with two attempts behind it: newer than those of a fleet."""
    seen = {"since": stamp(now - timedelta(hours=31)), "seenAt": stamp(now - timedelta(minutes=4))}
    status = _moved(
        {**RUNNING, "fencedProgram": "known", "tiers": [{"tier": "spot-a100", "state": "Up"}]}, now - OBSERVED
    )
    status["tiers"][0] |= seen
    status["progress"]["eta"] = stamp(now + timedelta(hours=3))
    job = raw_job(status=status, capacity={"profile": "gpus"}, goal={"steps": 1000})
    return named(job, "vit-faces", now - timedelta(minutes=3))


def _moved(value: Any, by: timedelta) -> Any:
    """A copy whose times are later by so much."""
    if isinstance(value, dict):
        return {name: _moved(one, by) for name, one in value.items()}
    if isinstance(value, list):
        return [_moved(one, by) for one in value]
    return stamp(parse_time(value) + by) if isinstance(value, str) and _TIME.fullmatch(value) else value


def profile(now: datetime) -> dict[str, Any]:
    """A profile with four tiers and a node that is avoided."""

    def known(tier: str, state: str, hours: float, **more: Any) -> dict[str, Any]:
        seen = {"since": stamp(now - timedelta(hours=hours)), "seenAt": stamp(now - timedelta(minutes=4))}
        return {"tier": tier, "state": state, **seen, **more}

    fault = {"reason": "ContainerLost", "namespace": digest("demo"), "job": "0123456789abcdef", "attempt": 2}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "CapacityProfile",
        "metadata": {"name": "gpus", "uid": "uid-gpus", "creationTimestamp": stamp(now - timedelta(days=90))},
        "spec": {
            "tiers": [
                {"name": "spot-h100", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "2.95"},
                {"name": "spot-a100", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "1.10"},
                {"name": "dedicated", "kind": "Dedicated", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "9.80"},
                {"name": "cpu", "kind": "CPU", "pricePerNodeHour": "0.40"},
            ]
        },
        "status": {
            "up": "spot-a100 dedicated",
            "out": "spot-h100",
            "tiers": [
                known("spot-h100", "TookBack", 0.7, interruptions=41, nodeTime="388h",
                      acquire={"recent": ["2m10s"], "worst": "9m"}),
                known("spot-a100", "Up", 31, interruptions=12, nodeTime="1204h",
                      acquire={"recent": ["48s"], "worst": "3m"}, start={"recent": ["1m32s"], "worst": "4m"}),
                known("dedicated", "Up", 700, interruptions=0, nodeTime="2210h",
                      start={"recent": ["1m5s"], "worst": "2m"}),
            ],
            "faultyNodes": [
                {"node": "spot-a100-17", "faults": [
                    {**fault, "at": stamp(now - timedelta(hours=3))},
                    {**fault, "at": stamp(now - timedelta(minutes=50)), "attempt": 3}]},
            ],
        },
    }  # fmt: skip
