"""The paces as a patch of a manifest, and the answer for programs."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from holdfast.api.scalars import parse_duration
from holdfast_cli.probe.measure import Outcome, Pace, Result
from holdfast_cli.probe.patch import as_json, as_patch, pace_text, paces, patch_file

TIERS: list[dict[str, Any]] = [
    {"name": "spot", "kind": "Spot", "pace": "9s", "nodeSelector": {"pool": "spot"}},
    {"name": "cpu"},
]


def result(tier: str, accelerators: int = 1, seconds: float | None = 2.0) -> Result:
    pace = Pace(seconds, "median") if seconds else None
    return Result(tier, accelerators, 1, None, Outcome.MEASURED if pace else Outcome.NO_NODE, pace=pace)


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34567, "12s350ms"), (0.0532171, "53ms220us"), (1e-9, "1us"), (90.0, "1m30s")], ids=str
)
def test_a_pace_is_a_duration_of_the_api(seconds: float, text: str) -> None:
    assert pace_text(seconds) == text
    assert parse_duration(text) > timedelta(0)


# Breaks if a patch removes tiers: a merge patch replaces the whole list.
def test_a_patch_has_all_tiers() -> None:
    patch = as_patch(TIERS, {"spot": "12s"}, profile=False)
    assert patch == {"spec": {"capacity": {"tiers": [{**TIERS[0], "pace": "12s"}, TIERS[1]]}}}
    assert as_patch(TIERS, {"cpu": "2m"}, profile=True)["spec"]["tiers"][1] == {"name": "cpu", "pace": "2m"}
    text = patch_file(patch, "kubectl patch x")
    assert text.startswith("# kubectl patch x\n")
    assert yaml.safe_load(text) == patch


def test_paces_are_those_of_the_tiers_own_number_of_accelerators() -> None:
    found = [result("spot", 1, 4.0), result("spot", 4, 1.5), result("cpu", 0, 60.0), result("v100", 1, None)]
    assert paces(found, {"spot": 4, "v100": 1}) == {"spot": "1s500ms", "cpu": "1m"}


def test_the_answer_says_what_is_not_known() -> None:
    (one,) = as_json("vit", 60, [result("v100", 1, None)], [], {})["tiers"]
    assert (one["outcome"], one["pace"], one["costOfMillionSteps"]) == ("NoNode", None, None)
