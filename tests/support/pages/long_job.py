"""A job with a past, for tests of pages: three tiers, five attempts, two of which lost steps."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.support.manifests.observed_jobs import raw_job

from holdfast.api.objects import TrainingJob
from holdfast_cli.checkpoints.survey import Objects, Prefix, rows
from holdfast_cli.cluster.job_api import Line
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.why.reasons import find_reasons
from holdfast_train.commitlog.records import Commit, Fence, LogState, Owner
from holdfast_train.format.names import CheckpointName
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row
from holdfast_train.storage.base import Entry

BEGIN = datetime.fromisoformat("2026-11-20T21:00:00Z")
NOW = datetime.fromisoformat("2026-11-21T09:03:00Z")
TIERS: list[dict[str, Any]] = [
    {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "9.80"},
    {"name": "dedicated", "kind": "Dedicated", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "29.40"},
    {"name": "cpu", "kind": "CPU", "pricePerNodeHour": "1.10"},
]
TRACE = "\n".join(["RuntimeError: CUDA error: an illegal memory access was encountered", "  File train.py, line 214"])
# number, tier, node, minutes: raised, node, first step, last step, end; first step, last step, resumed at
ATTEMPTS: tuple[tuple[int, str, str, int, int, int, int, int, int, int, int], ...] = (
    (1, "spot", "spot-a100-7f3", 0, 4, 8, 168, 169, 1, 9_600, 0),
    (2, "dedicated", "ded-a100-2", 169, 171, 174, 301, 304, 9_601, 17_200, 9_600),
    (3, "spot", "spot-a100-c21", 296, 300, 304, 415, 416, 17_201, 23_800, 17_200),
    (4, "spot", "spot-a100-d09", 416, 431, 435, 520, 520, 23_401, 28_400, 23_400),
    (5, "dedicated", "ded-a100-1", 520, 523, 527, 0, 0, 27_001, 38_700, 27_000),
)
ENDS: dict[int, tuple[str, str, str]] = {
    1: (
        "Interruption",
        "SpotInterruption",
        "node spot-a100-7f3 carries the taint aws-node-termination-handler/spot-itn",
    ),
    2: ("Stopped", "Returning", "spot is available again, and the move is expected to save 88.20"),
    3: ("Interruption", "NodeGone", "node spot-a100-c21 is gone"),
    4: ("Failure", "ExitCode", TRACE),
}


def at(minutes: float) -> str:
    """A time of the job as Kubernetes writes it."""
    return f"{BEGIN + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def a_job(name: str = "vit-faces") -> TrainingJob:
    """The job, in its fifth attempt at step 38,700 of 60,000."""
    history = [
        {
            "number": n, "tier": tier, "node": node, "kind": ENDS[n][0], "reason": ENDS[n][1], "message": ENDS[n][2],
            "raisedAt": at(raised), "scheduledAt": at(placed), "startedAt": at(placed + 1), "endedAt": at(end),
            "firstStep": first, "firstStepAt": at(begun), "lastStep": last, "lastStepAt": at(left),
            "resumedStep": resumed or None, "stepsTrained": last - first + 1, "cost": "30.5",
            "stepsLost": {3: 400, 4: 1400}.get(n, 0), "secondsLost": "6m30s",
        }
        for n, tier, node, raised, placed, begun, left, end, first, last, resumed in ATTEMPTS[:4]
    ]  # fmt: skip
    status = {
        "phase": "Running", "attempt": 5, "tier": "dedicated", "node": "ded-a100-1", "fencedProgram": "known",
        "reason": "attempt 5 trains on ded-a100-1", "startedAt": at(0),
        "decision": {"action": "Run", "message": "dedicated: spot is out; the deadline allows no wait", "at": at(527)},
        "next": "The job trains. If its node is taken away, it saves, moves, and resumes at the step that it saved.",
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": "Stepping", "message": "the step grows",
             "lastTransitionTime": at(527)},
            {"type": "DeadlineAtRisk", "status": "False", "reason": "Enough", "message": "the job ends 9h before it",
             "lastTransitionTime": at(20)},
        ],
        "current": {
            "number": 5, "state": "Running", "tier": TIERS[1], "raisedAt": at(520), "createdAt": at(520),
            "scheduledAt": at(523), "startedAt": at(524), "progressAt": at(527), "fenced": True, "firstStep": 27_001,
            "lastStep": 38_700, "lastStepAt": at(722), "resumedStep": 27_000,
            "pods": [{"rank": 0, "uid": "p5", "node": "ded-a100-1", "granted": True}],
        },
        "progress": {"step": 38_700, "steps": 60_000, "percent": "64.5", "loss": "1.1873", "eta": at(1077),
                     "samplesPerSecond": "8192.4", "metrics": [{"name": "eval/accuracy", "value": "0.8021"}],
                     "updatedAt": at(722)},
        "checkpoint": {"step": 38_500, "uri": "s3://runs/vision/vit-faces/manifests/000000038500-a5-x.json",
                       "bytes": 5_400_000_000, "committedAt": at(719)},
        "restarts": {"interruptions": 2, "infrastructure": 0, "failures": 1},
        "ledger": {
            "attempts": 4, "spent": "188.16", "savedVersusDedicated": "131.40", "goodput": "0.9312", "ranAt": at(5),
            "byTier": [
                {"tier": "spot", "kind": "Spot", "attempts": 3, "nodeHours": "6.133", "spent": "60.11",
                 "stepsTrained": 21_200, "stepsLost": 1_800},
                {"tier": "dedicated", "kind": "Dedicated", "attempts": 1, "nodeHours": "2.216", "spent": "65.17",
                 "stepsTrained": 7_600},
            ],
            "stepsLost": 1_800, "secondsLost": "31m",
            "recovery": {"notice": "2m10s", "acquire": "19m5s", "start": "4m40s", "restore": "5m5s", "replay": "30m"},
        },
        "forecast": {"cost": "357.80", "slack": "9h10m", "at": at(722)},
        "history": history,
    }  # fmt: skip
    raw = raw_job(name, status=status, goal={"steps": 60_000})
    raw["spec"]["capacity"] = {"tiers": TIERS, "policy": "Deadline", "deadline": at(1627), "budget": "500"}
    raw["spec"]["checkpoint"] = {"storage": {"s3": {"bucket": "runs", "prefix": f"vision/{name}"}}}
    raw["metadata"] |= {"namespace": "vision", "creationTimestamp": at(0)}
    return TrainingJob.parse(raw)


def a_history(every: int = 20, seed: int = 1) -> History:
    """Losses, gradient norms and learning rates of all attempts. Attempts 3 and 4 lost their last steps."""
    chance = random.Random(seed)

    def measured(step: int) -> dict[str, float]:
        loss = 0.9 + 5.2 * math.exp(-step / 7000) + chance.gauss(0, 0.035)
        norm = 0.8 + 2 * math.exp(-step / 9000) + abs(chance.gauss(0, 0.12))
        rate = 3e-4 * min(step / 2000, 1) * (0.5 + 0.5 * math.cos(math.pi * step / 60_000))
        accuracy = {"eval/accuracy": 0.82 * (1 - math.exp(-step / 11_000))} if step % 1000 < every else {}
        return {"loss": loss, "grad_norm": norm, "learning_rate": rate, **accuracy}

    def attempt(n: int, begun: int, left: int, first: int, last: int) -> Iterator[Row]:
        since, until = (BEGIN + timedelta(minutes=minutes) for minutes in (begun, left or 722))
        for step in range(first, last + 1, every):
            yield Row(step, (since + (until - since) * (step - first) / (last - first)).timestamp(), measured(step))

    kept = {3: 23_400, 4: 27_000}
    parts = [Part(n, list(attempt(n, b, e, f, t)), kept.get(n, t)) for n, _, _, _, _, b, e, _, f, t, _ in ATTEMPTS]
    return History(parts, [])


def surveyed(name: str = "vit-faces") -> tuple[Prefix, list[Any]]:
    """Three checkpoints, of which one is damaged."""
    made, objects = [], {}
    for seq, step in enumerate((37_500, 38_000, 38_500), 40):
        named = CheckpointName(step, 5, f"{seq:08x}")
        when = BEGIN + timedelta(minutes=700 + seq - 20)
        made.append(Commit(seq, step, 5, when.isoformat(), named, "0" * 64, 5_400_000_000))
        size = 5_400_000_000 if step != 37_500 else 4_000_000_000
        data = Entry(f"data/{named}/0", size, when)
        objects[named] = Objects(named, (data,), replace(data, key=f"manifests/{named}.json", size=9000))
    state = LogState(44, Owner(1, "vision", name, "uid"), (), Fence(39, 5, "p5", "n"), tuple(made))
    prefix = Prefix(f"s3://runs/vision/{name}", state, objects)
    return prefix, rows(prefix, frozenset())


def some_events() -> list[Line]:
    """Three, one of which came several times."""
    return [
        Line("e1", BEGIN, warning=False, reason="Created", message="created pod vit-faces-1-0 for tier spot"),
        Line("e2", BEGIN + timedelta(minutes=168), warning=True, reason="Notice", message="spot-a100-7f3 will be lost"),
        Line("e3", NOW - timedelta(minutes=3), warning=False, reason="Saved", message="saved step 38500", count=77),
    ]


def the_inputs(name: str = "vit-faces", **changes: Any) -> JobInputs:
    """Everything that may be known of the job."""
    job = a_job(name)
    known: dict[str, Any] = {
        "job": job,
        "now": NOW,
        "events": some_events(),
        "history": a_history(),
        "checkpoints": surveyed(name),
        "evidence": [hang()],
        "reasons": find_reasons(job, None, None, NOW),
        "place": f"s3://runs/vision/{name}",
    }
    return JobInputs(**{**known, **changes})


def hang() -> dict[str, Any]:
    """What one node told when attempt 4 stood still."""
    first = "Thread 0x1 (most recent call first):"
    loads = f'{first}\n  File "/app/data.py", line 88 in __next__\n  File "/app/train.py", line 30 in main'
    waits = f'{first}\n  File "/x/site-packages/torch/distributed/c10d.py", line 9 in all_reduce'
    ranks = [
        {"rank": rank, "step": step, "state": "S", "stacks": stacks, "collectives": {"pg": {"number": n, "done": n}}}
        for rank, step, stacks, n in ((0, 28_400, waits, 412), (1, 28_399, loads, 411))
    ]
    return {
        "attempt": 4, "node": 0, "at": "2026-11-21T05:40:00+00:00", "why": "no step for 5m00s", "ranks": ranks,
        "lastLines": ["step 28400 loss 1.31", "step 28400 loss 1.30"], "jobUID": "uid",
    }  # fmt: skip
