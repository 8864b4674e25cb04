"""Every metric that the operator can show, with one sample of each at least."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.support.operator.fake_api_server import T0, FakeClient, raw_job

from holdfast.core.observe.report import SavedCheckpoint
from holdfast.runtime.operator import Operator
from holdfast.runtime.settings import Settings
from holdfast_protocol.figures import BYTES, ROWS

AT = "2026-11-21T11:30:00Z"
TIER = {"name": "v100", "kind": "Dedicated", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "3.06"}


@dataclass
class Told:
    """What is told of a metric, under the name of its series without those of a histogram."""

    kind: str
    labels: set[str] = field(default_factory=set)


def job_with_everything(version: int = 1) -> dict[str, Any]:
    """A job of which every figure is known."""
    raw = raw_job(
        version=version,
        phase="Running",
        phaseSince=AT,
        attempt=2,
        current={"number": 2, "state": "Running", "tier": TIER, "raisedAt": AT, "scheduledAt": AT},
        progress={
            "step": 50,
            "steps": 200,
            "updatedAt": AT,
            "eta": AT,
            **{row.wire_name: 5 << 30 if row.kind == BYTES else "0.25" for row in ROWS},
            "metrics": [{"name": "accuracy", "value": "0.9"}],
        },
        checkpoint={"step": 40, "uri": "s3://b/p", "bytes": 9, "committedAt": AT},
        ledger={"savedVersusDedicated": "3.25", "goodput": "0.9"},
        forecast={"cost": "41.25", "slack": "1h30m"},
        conditions=[{"type": "DeadlineAtRisk", "status": "False", "reason": "Enough", "lastTransitionTime": AT}],
    )
    raw["spec"]["capacity"] |= {"tiers": [TIER], "deadline": "2026-11-22T12:00:00Z", "budget": "60"}
    return raw


def operator() -> Operator:
    """An operator that knows such a job and a profile, and has counted something of everything."""
    client: Any = FakeClient()
    made = Operator(Settings(namespace="ns"), client)
    made._cache.put_job(job_with_everything())
    tiers = {"tiers": [TIER]}
    profile = {
        "metadata": {"name": "grid", "uid": "g"},
        "spec": tiers,
        "status": {"tiers": [{"tier": "v100", "state": "Up"}]},
    }
    made._cache.put_profile(profile)
    made._metrics.observe_pass("quiet", 0.1, ("adopt",))
    made._metrics.observe_call("get", "pods", 200, 0.1)
    made._metrics.observe_request("progress", 200)
    made._metrics.observe_order("drain", 0.1)
    made._metrics.observe_checkpoint(SavedCheckpoint(1, "s3://b/p", 9, T0))
    made._frames.connected("pods")
    made._frames.start()
    return made


def every_metric() -> dict[str, Told]:
    """Name of every metric -> its kind and labels."""
    found, known = {}, operator()
    known._resync.last = known._elector.renewed_at = 0.0
    for family in text_string_to_metric_families(asyncio.run(known.exposition.page()).decode()):
        if not family.name.startswith("holdfast_"):  # of the process and of Python, by prometheus_client
            continue
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        suffix = "_total" if family.type == "counter" else ""
        found[family.name + suffix] = Told(family.type, labels)
    return found
