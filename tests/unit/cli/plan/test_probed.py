"""What `holdfast probe` wrote is what `holdfast plan --from-probe` reads."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.cli.plan.test_command import SPOT, V100, changed, facts, manifest, plan

from holdfast_cli.errors import CliError
from holdfast_cli.plan.probed import MOST_BYTES, read_probe
from holdfast_cli.probe.measure import Outcome, Pace, Result
from holdfast_cli.probe.patch import as_json


def probed(tmp_path: Path) -> str:
    times: dict[str, Any] = {"acquire": timedelta(seconds=20), "start": timedelta(seconds=95)}
    spot = [
        Result("spot", number, 1, None, Outcome.MEASURED, pace=Pace(seconds, "median"), **times)
        for number, seconds in ((1, 5.0), (4, 2.0))
    ]
    lost = Result("v100", 4, 1, None, Outcome.NO_NODE, "no node within 2m")
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(as_json("vit", 60, [*spot, lost], [], {"spot": "2s"})))
    return str(path)


# Breaks if one of the two changes a name and the other does not, or if the 60 steps of a probe become the goal.
def test_a_plan_uses_what_a_probe_measured(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(manifest(changed(SPOT, pace=None), changed(V100, pace="6s"))))
    found = facts(str(job), "--from-probe", probed(tmp_path), "--start", "v100=2m")
    assert found["time of a step", "spot"] == ("2s", "holdfast probe of vit")
    assert found["time of a step", "v100"] == ("6s", "manifest")
    assert found["wait for a node", "spot"] == ("20s", "holdfast probe of vit")
    assert found["start on a node", "spot"] == ("1m35s", "holdfast probe of vit")
    job.write_text(yaml.safe_dump(manifest(SPOT, V100, steps=None)))
    assert "plan needs the number of steps" in plan(str(job), "--from-probe", probed(tmp_path), code=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "nonsense",
        '{"job": "vit", "paces": {"spot": "fast"}, "tiers": []}',
        "[" * 100_000,
        '{"job": "x\\u001b[2J", "paces": {}, "tiers": []}',
    ],
    ids=["empty", "nothing", "list", "no-json", "no-duration", "deep", "no-name"],
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "probe.json"
    path.write_text(text)
    with pytest.raises(CliError, match="is not the answer of holdfast probe"):
        read_probe(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"probe\.json cannot be read: No such file"):
        read_probe(tmp_path / "probe.json")
    huge = tmp_path / "huge.json"
    huge.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(CliError, match="has over"):
        read_probe(huge)


def test_two_sources_are_refused(tmp_path: Path) -> None:
    assert "not both" in plan("job.yaml", "--from", "before", "--from-probe", "x.json", code=2)
