"""What `holdfast why -o json` prints: every figure, under stable names. Pure.

Durations are seconds, money is a decimal string, and null means unknown or unlimited.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from holdfast.api.scalars import format_time
from holdfast.core.capacity.outlook import Figures
from holdfast.core.capacity.policy_input import Choice, TierView
from holdfast_cli.why.reasons import Reasons, age


def as_json(found: Reasons) -> dict[str, Any]:
    """The answer as an object for json.dumps."""
    job, status, answer = found.job, found.job.status, found.answer
    missing = answer.missing if answer else None
    return {
        "job": {"namespace": job.metadata.namespace, "name": job.metadata.name},
        "at": format_time(found.now),
        "phase": status.phase,
        "attempt": status.attempt,
        "tier": status.tier,
        "node": status.node,
        "decision": status.decision.to_object() if status.decision else None,
        "idle": found.idle or None,
        "nodesLookedAt": found.nodes,
        "policy": {
            "wanted": job.spec.capacity.policy,
            "inForce": answer.policy if answer else None,
            "missing": {"reason": missing.reason, "message": missing.message} if missing else None,
        },
        "choice": _choice(found, answer.choice) if answer else None,
        "work": _work(found),
        "deadline": _deadline(found),
        "budget": _budget(found),
        "cost": {
            "spent": _money(found.ledger.spent),
            "expected": _money(found.forecast.cost),
            "savedVersusDedicated": found.ledger.saved_versus_dedicated,
        },
        "tiers": [_tier(found, view, made) for view, made in found.rows],
    }


def _choice(found: Reasons, choice: Choice) -> dict[str, Any]:
    answer = found.answer
    return {
        "tier": choice.tier,
        "reason": choice.reason,
        "askedAgainAt": _time(found.ask_at),
        "lateSeconds": _seconds(choice.late),
        "promised": choice.promised,
        "urgent": choice.urgent,
        "better": list(answer.better) if answer else [],
        "probe": answer.probe if answer else None,
    }


def _work(found: Reasons) -> dict[str, Any] | None:
    if found.answer is None:
        return None
    outlook = found.answer.outlook
    return {
        "goalSteps": outlook.work.goal,
        "doneSteps": outlook.work.done,
        "referenceTier": outlook.work.reference,
        "secondsPerStep": outlook.work.pace,
        "leftSeconds": _seconds(outlook.view.work),
        "atRiskSeconds": _seconds(outlook.view.at_risk),
        "changingSeconds": _seconds(outlook.view.changing),
    }


def _deadline(found: Reasons) -> dict[str, Any] | None:
    if (at := found.job.spec.capacity.deadline) is None:
        return None
    risk, net = found.risk, found.net
    return {
        "at": format_time(at),
        "leftSeconds": (at - found.now).total_seconds(),
        "slackSeconds": _span(found.forecast.slack),
        "lateSeconds": _span(found.forecast.late),
        "surestTier": net.tier.name if net else None,
        "reserveSeconds": _seconds(net.reserve) if net else None,
        "risk": {"status": risk.status, "reason": risk.reason, "message": risk.message} if risk else None,
    }


def _budget(found: Reasons) -> dict[str, Any] | None:
    if (budget := found.job.spec.capacity.budget) is None:
        return None
    outlay = found.budget
    return {
        "amount": _money(budget),
        "left": _money(budget - found.ledger.spent),
        "rest": _money(outlay.rest) if outlay else None,
        "short": outlay.short if outlay else None,
        "pause": outlay.pause if outlay else None,
        "reason": outlay.reason if outlay else None,
    }


def _tier(found: Reasons, view: TierView, made: Figures) -> dict[str, Any]:
    return {
        "name": view.name,
        "kind": view.kind,
        "here": found.answer is not None and view.name == found.answer.outlook.view.tier,
        "available": view.available,
        "availabilityAgeSeconds": view.spell_age,
        "pricePerNodeHour": _money(view.price),
        "speed": view.speed,
        "secondsPerStep": made.pace,
        "costOfAnHoursWork": found.hour_of_work(view),
        "observation": "Billed" if made.billed else "Free",
        "readyNodeSeconds": _span(age(made.node_since, found.now)),
        "acquireSeconds": {**_pair(made.acquire, made.worst_acquire), "measured": made.acquire_measured},
        "startSeconds": {**_pair(made.start, made.worst_start), "measured": made.start_measured},
        "changeoverSeconds": {"typical": view.changeover, "worst": view.worst_changeover},
        "interruptions": made.interruptions,
        "nodeTimeSeconds": _span(made.node_time),
        "lifeSeconds": _seconds(view.lifetime),
    }


def _pair(typical: timedelta, worst: timedelta) -> dict[str, Any]:
    return {"typical": _span(typical), "worst": _span(worst)}


def _seconds(value: float) -> float | None:
    return value if isfinite(value) else None


def _span(value: timedelta | None) -> float | None:
    return None if value is None else value.total_seconds()


def _time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)


def _money(value: Decimal | None) -> str | None:
    return None if value is None else format(value, "f")
