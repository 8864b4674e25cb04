"""The result of `holdfast plan` for programs. Durations are in seconds, money is in decimal strings."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from typing import Any

from holdfast_cli.plan.comparison import Comparison
from holdfast_cli.simulate.plan import Lease, Row


def as_json(found: Sequence[Comparison]) -> dict[str, Any]:
    """All jobs."""
    return {"jobs": [_job(one) for one in found]}


def _job(one: Comparison) -> dict[str, Any]:
    return {
        "job": one.job,
        "steps": one.steps,
        "nodes": one.nodes,
        "draws": one.draws,
        "ways": [_way(row) for row in one.rows],
        "leases": [_lease(lease) for lease in one.leases],
        "facts": [asdict(fact) for fact in one.facts],
    }


def _way(row: Row) -> dict[str, Any]:
    return {
        "policy": row.way.policy,
        "onlyTier": row.way.only,
        "deadline": _seconds(row.deadline),
        "draws": row.draws,
        "finish": {"median": _seconds(row.finish), "p95": _seconds(row.finish_p95)},
        "cost": {"median": _money(row.cost), "p95": _money(row.cost_p95)},
        "interruptions": round(row.interruptions, 3),
        "late": row.late,
        "overBudget": row.over_budget,
        "nodeHours": {name: round(hours, 3) for name, hours in row.hours.items()},
    }


def _lease(one: Lease) -> dict[str, Any]:
    return {
        "tier": one.tier,
        "monthly": _money(one.monthly),
        "breakEven": {"hours": round(one.hours, 1), "shareOfMonth": round(one.share, 4)},
        "months": one.months,
        "finish": _seconds(one.took),
        "cost": _money(one.cost),
    }


def _seconds(value: timedelta | None) -> float | None:
    return None if value is None else round(value.total_seconds(), 3)


def _money(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:.4f}"
