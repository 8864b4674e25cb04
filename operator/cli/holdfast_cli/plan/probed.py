"""Read what `holdfast probe -o json` wrote."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationError

from holdfast.api.knowledge import MAX_TIERS, Measured, TierKnowledge
from holdfast.api.model import Model
from holdfast.api.scalars import Duration
from holdfast.api.strings import Label
from holdfast_cli.errors import CliError, unreadable
from holdfast_cli.plan.inputs import Measurements

MOST_BYTES: Final = 1 << 20
MOST_PROBES: Final = 6 * MAX_TIERS
_DAY: Final = 86_400.0

Seconds = Annotated[float, Field(ge=0, le=_DAY)]


class _Probe(Model):
    """The part of one probe that a plan uses."""

    tier: Label
    pace: Duration | None = None
    acquire: Seconds | None = None
    start: Seconds | None = None


class _Answer(Model):
    """The part of the answer that a plan uses."""

    job: Label
    paces: Annotated[dict[Label, Duration], Field(max_length=MAX_TIERS)]
    tiers: Annotated[tuple[_Probe, ...], Field(max_length=MOST_PROBES)]


def read_probe(path: Path) -> Measurements:
    """What a probe measured of each tier. Raises CliError, which names the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise CliError(f"{path} has over {MOST_BYTES:,} bytes: it is not the answer of holdfast probe")
        found = _Answer.model_validate(json.loads(text))
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValidationError, ValueError, RecursionError) as error:
        raise CliError(
            f"{path} is not the answer of holdfast probe", hint=f"holdfast probe job.yaml -o json > {path}"
        ) from error
    return Measurements(tuple(_knowledge(found)), f"holdfast probe of {found.job}")


def _knowledge(found: _Answer) -> list[TierKnowledge]:
    """Each tier with a pace, and the times of the probe that has this pace."""
    known = []
    for tier, pace in found.paces.items():
        one = next((probe for probe in found.tiers if (probe.tier, probe.pace) == (tier, pace)), _Probe(tier=tier))
        known.append(TierKnowledge(tier=tier, pace=pace, acquire=_once(one.acquire), start=_once(one.start)))
    return known


def _once(seconds: float | None) -> Measured | None:
    if seconds is None:
        return None
    took = timedelta(seconds=seconds)
    return Measured(recent=(took,), worst=took)
