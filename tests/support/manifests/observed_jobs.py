"""Jobs as the API server gives them, for tests of everything that reads them."""

import copy
from typing import Any

from holdfast.api.objects import TrainingJob

UID = "11111111-1111-4111-8111-111111111111"

_TIERS = [
    {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "nodeSelector": {"holdfast.dev/tier": "spot"}},
    {"name": "dedicated", "kind": "Dedicated", "accelerator": "nvidia.com/gpu"},
    {"name": "cpu", "kind": "CPU"},
]

_SPEC: dict[str, Any] = {
    "trainer": {"image": "registry.example/train:1", "command": ["python3", "train.py"]},
    "capacity": {"tiers": _TIERS},
    "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "demo/job"}}},
    "goal": {"steps": 1000},
}

RUNNING: dict[str, Any] = {
    "phase": "Running",
    "attempt": 3,
    "tier": "dedicated",
    "node": "dedicated-1",
    "decision": {"action": "Run", "message": "attempt 3 runs on dedicated-1", "at": "2026-11-21T09:02:00Z"},
    "next": "The job trains. If its node is taken away, it saves, moves, and resumes at the step that it saved.",
    "conditions": [
        {
            "type": "Progressing",
            "status": "True",
            "reason": "Stepping",
            "message": "the step grows",
            "lastTransitionTime": "2026-11-21T09:01:00Z",
        }
    ],
    "current": {
        "number": 3,
        "state": "Running",
        "tier": _TIERS[1],
        "raisedAt": "2026-11-21T09:01:40Z",
        "startedAt": "2026-11-21T09:01:50Z",
        "pods": [{"rank": 0, "uid": "p3", "node": "dedicated-1"}],
        "firstStep": 120,
        "resumedStep": 120,
    },
    "progress": {
        "step": 250,
        "steps": 1000,
        "percent": "25.0",
        "loss": "2.113",
        "samplesPerSecond": "31.5",
        "eta": "2026-11-21T09:05:00Z",
        "updatedAt": "2026-11-21T09:02:58Z",
    },
    "checkpoint": {
        "step": 240,
        "uri": "s3://runs/demo/job/manifests/000000000240-a3-x.json",
        "bytes": 39_000_000,
        "committedAt": "2026-11-21T09:02:50Z",
    },
    "restarts": {"interruptions": 1, "infrastructure": 0, "failures": 1},
    "ledger": {
        "attempts": 2,
        "byTier": [
            {
                "tier": "spot",
                "kind": "Spot",
                "attempts": 2,
                "nodeHours": "0.023611",
                "spent": "0.0722",
                "stepsTrained": 120,
            }
        ],
        "spent": "12.3456",
        "savedVersusDedicated": "24.6912",
        "goodput": "0.873",
        "stepsLost": 7,
        "secondsLost": "9s",
        "recovery": {"notice": "1s500ms", "acquire": "4s", "start": "2s", "restore": "1s500ms", "replay": "1m3s"},
    },
    "history": [
        {
            "number": 1,
            "tier": "spot",
            "node": "spot-1",
            "kind": "Interruption",
            "reason": "SpotInterruption",
            "message": "node spot-1 carries a taint",
            "raisedAt": "2026-11-21T09:00:00Z",
            "startedAt": "2026-11-21T09:00:05Z",
            "endedAt": "2026-11-21T09:01:00Z",
            "firstStep": 1,
            "lastStep": 120,
            "stepsLost": 0,
            "secondsLost": "6s500ms",
        },
        {
            "number": 2,
            "tier": "spot",
            "node": "spot-2",
            "kind": "Failure",
            "reason": "UserException",
            "message": "ValueError: bad batch\n  File train.py, line 7",
            "raisedAt": "2026-11-21T09:01:00Z",
            "startedAt": "2026-11-21T09:01:05Z",
            "endedAt": "2026-11-21T09:01:30Z",
        },
    ],
}


def raw_job(name: str = "job", *, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A TrainingJob as JSON, in namespace `demo`. `spec` replaces fields of the spec, `status` the whole status."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": "demo",
            "uid": UID,
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-11-21T09:00:00Z",
        },
        "spec": {**copy.deepcopy(_SPEC), **spec},
        "status": copy.deepcopy(RUNNING if status is None else status),
    }


def running_job(changes: dict[str, Any] | None = None, **spec: Any) -> TrainingJob:
    """A running job at step 250 of 1000, on its third attempt. `changes` replaces fields of its status."""
    return TrainingJob.parse(raw_job(status={**copy.deepcopy(RUNNING), **(changes or {})}, **spec))
