"""What a probe found as a patch of the manifest, and as an answer for programs. Pure."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import yaml

from holdfast.api.scalars import format_duration
from holdfast_cli.probe.measure import Result, Scaling

Raw = Mapping[str, Any]
SHORTEST: Final = timedelta(microseconds=1)


def paces(results: Sequence[Result], own: Mapping[str, int]) -> dict[str, str]:
    """The pace of each tier that was measured with its own number of accelerators, as a manifest has it."""
    return {
        one.tier: pace_text(one.pace.seconds)
        for one in results
        if one.pace and one.accelerators == own.get(one.tier, one.accelerators)
    }


def pace_text(seconds: float) -> str:
    """`1s250ms`: as a manifest has it, with four digits."""
    rounded = float(f"{seconds:.4g}")
    return format_duration(max(timedelta(seconds=rounded), SHORTEST))


def as_patch(tiers: Sequence[Raw], found: Mapping[str, str], *, profile: bool) -> dict[str, Any]:
    """The merge patch that states the paces. It has all tiers: a merge patch replaces a list as a whole."""
    changed = [{**tier, "pace": found[tier["name"]]} if tier.get("name") in found else dict(tier) for tier in tiers]
    return {"spec": {"tiers": changed} if profile else {"capacity": {"tiers": changed}}}


def patch_file(patch: Raw, command: str) -> str:
    """The patch as a YAML file, which says how it is applied."""
    body = yaml.safe_dump(patch, sort_keys=False, allow_unicode=True, width=120)
    return f"# {command}\n{body}"


def as_json(
    job: str, steps: int, results: Sequence[Result], scalings: Sequence[Scaling], found: Mapping[str, str]
) -> dict[str, Any]:
    """The answer of `-o json`, which `holdfast plan --from-probe` reads. Other times than paces are in seconds."""
    return {
        "job": job,
        "steps": steps,
        "paces": dict(found),
        "tiers": [_result(one) for one in results],
        "scaling": [
            {
                "tier": one.tier,
                "base": one.base,
                "accelerators": one.accelerators,
                "speedup": round(one.speedup, 4),
                "efficiency": round(one.efficiency, 4),
                "by": one.by,
            }
            for one in scalings
        ],
    }


def _result(one: Result) -> dict[str, Any]:
    return {
        "tier": one.tier,
        "accelerators": one.accelerators,
        "nodes": one.nodes,
        "outcome": str(one.outcome),
        "message": one.message,
        "steps": one.steps,
        "pace": pace_text(one.pace.seconds) if one.pace else None,
        "paceIs": one.pace.kind if one.pace else None,
        "samplesPerSecond": None if one.samples_per_second is None else round(one.samples_per_second, 3),
        "acquire": None if one.acquire is None else round(one.acquire.total_seconds(), 3),
        "start": None if one.start is None else round(one.start.total_seconds(), 3),
        "peakMemory": one.peak_memory,
        "dataWait": one.data_wait,
        "pricePerNodeHour": None if one.price is None else str(one.price),
        "costOfMillionSteps": _money(one.cost_of_million_steps),
        "costOfMillionSamples": _money(one.cost_of_million_samples),
    }


def _money(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:.4f}"
