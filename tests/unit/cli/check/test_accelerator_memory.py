"""Which batches fit into the accelerators of a tier, by an estimate and the labels of nodes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.manifests.good_manifests import GOOD, changed
from tests.unit.cli.check.test_preflight import NODE, FakeApi
from typer.testing import CliRunner

from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.trainer import Trainer
from holdfast.runtime.errors import ApiError
from holdfast_cli.check.accelerator_memory import LABEL, Need, Needs, memory_of, read_needs
from holdfast_cli.check.command import app
from holdfast_cli.check.findings import Report
from holdfast_cli.check.preflight import Preflight
from holdfast_cli.errors import CliError, ExitCode
from holdfast_model.estimate.document import Estimate, Peak, Row

GIB = 1 << 30
T4 = Tier(name="spot-t4", kind="Spot", accelerator="nvidia.com/gpu", node_selector={"holdfast.dev/tier": "spot"})
TRAINER = TrainingJob.parse(GOOD).spec.trainer


def node(memory: str | None, tier: str = "spot") -> dict[str, Any]:
    labels = {"holdfast.dev/tier": tier} | ({} if memory is None else {LABEL: memory})
    return {**NODE, "metadata": {**NODE["metadata"], "labels": labels}}


def said(needs: Needs, *nodes: Any, tier: Tier = T4, trainer: Trainer = TRAINER) -> list[str]:
    report = Report("job")
    needs.check(tier, trainer, nodes, "tier", report)
    return [f"{found.severity} {found.message}" for found in report.findings]


def of(*gib: float) -> Needs:
    return Needs(tuple(Need(4 * 2**number, int(size * GIB)) for number, size in enumerate(gib)))


@pytest.mark.parametrize(
    ("needs", "wanted"),
    [
        (of(11), "ok a batch of 4 fits spot-t4 (15.0 GiB): its tensors need 11.0 GiB, 14.2 GiB with a margin"),
        (of(14), "warning a batch of 4 may not fit spot-t4 (15.0 GiB): its tensors need 14.0 GiB, and 17.6 GiB with a "
                 "margin"),
        (of(20.25), "warning a batch of 4 does not fit spot-t4 (15.0 GiB): its tensors need 20.2 GiB"),
        (Needs((Need(None, 20 * GIB),)), "warning a step does not fit spot-t4 (15.0 GiB): its tensors need 20.0 GiB"),
        (of(3, 6, 14, 20),
         "ok batches of 4 and 8 fit spot-t4 (15.0 GiB), a batch of 16 may fit, a batch of 32 does not fit"),
        (of(16, 20), "warning batches of 4 and 8 do not fit spot-t4 (15.0 GiB)"),
    ],
)  # fmt: skip
def test_what_fits(needs: Needs, wanted: str) -> None:
    assert said(needs, node("15360")) == [wanted]


# Breaks if a pod that lands on the smallest of a tier's accelerators is told of a larger one, or of another tier's.
@pytest.mark.parametrize(
    ("labels", "mib"),
    [(["15360", "40960", None], 15360), ([None], None), (["x", "-1", "", "0", "9" * 12, "²"], None), ([], None)],
)
def test_the_least_memory_of_a_tier(labels: list[str | None], mib: int | None) -> None:
    nodes = [*map(node, labels), node("1024", tier="other")]
    assert memory_of(T4, nodes) == (None if mib is None else mib << 20)


def test_a_memory_that_is_not_known_is_asked_for_and_one_that_is_said_counts_more() -> None:
    (line,) = said(of(11), node(None))
    assert line.startswith("warning how much memory its accelerators have is not known")
    assert "--accelerator-memory spot-t4=SIZE" in line
    given = of(11)
    given.given = {"spot-t4": 8 * GIB, "h100": GIB}
    assert "does not fit spot-t4 (8.0 GiB)" in said(given, node("15360"))[0]
    assert given.unused() == ["h100"]


def test_nothing_is_said_where_there_is_no_accelerator() -> None:
    assert said(of(11), node("15360"), tier=Tier(name="cpu", kind="CPU")) == []
    assert said(of(11), node("15360"), trainer=TRAINER.model_copy(update={"accelerators_per_node": 0})) == []


ESTIMATE = Estimate("train:training", (), "2.15.0", (Row(8, Peak(1, 2, 3, 4), Peak(1, 0, 0, 1)), Row(None, None, None)))


def test_the_file_is_that_of_the_command(tmp_path: Path) -> None:
    """Breaks if holdfast-train writes what this command does not read."""
    (path := tmp_path / "memory.json").write_text(json.dumps(ESTIMATE.as_json()))
    assert read_needs(path, {}).batches == (Need(8, 10),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "v: Field required"),
        ("[1]", "memory.json"),
        ("not json", "the file: Invalid JSON"),
        ('{"v": 2, "rows": []}', "v: Input should be 1 (version 1)"),
        ('{"v": 1, "rows": []}', "it has no batch whose memory is known"),
        ('{"v": 1, "rows": [], "unknown": "torch 9 has no books"}', "is not known: torch 9 has no books"),
        ('{"v": 1, "rows": [{"batch": 8, "training": {"peak": -1}}]}', "rows.0.training.peak: "),
        ('{"v": 1, "rows": [{"batch": 8, "training": {"peak": 1e99}}]}', "rows.0.training.peak: "),
        ('{"v": 1, "rows": [{"batch": "8", "training": {"peak": 1}}]}', "rows.0.batch: "),
        ('{"v": 1, "rows": [' + ",".join(['{"batch": 8, "training": null}'] * 1001) + "]}", "rows: "),
        (" " * (1 << 20) + "{}", "the file is larger than 1.0 MiB"),
    ],
    ids=("empty", "list", "text", "version", "rows", "unknown", "negative", "huge", "type", "many", "large"),
)
def test_a_file_that_is_no_estimate(text: str, why: str, tmp_path: Path) -> None:
    (path := tmp_path / "memory.json").write_text(text)
    with pytest.raises(CliError) as found:
        read_needs(path, {})
    assert why in str(found.value)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="No such file") as found:
        read_needs(tmp_path / "no.json", {})
    assert found.value.exit_code is ExitCode.NOT_FOUND


# Breaks if the answer is lost where nodes may not be listed, or labels of the cluster are not read.
@pytest.mark.parametrize(
    ("nodes", "given", "wanted"),
    [
        ({"items": [node("15360")]}, {}, "a batch of 4 fits spot (15.0 GiB)"),
        (ApiError(403, "Forbidden", "no"), {"spot": 8 * GIB}, "a batch of 4 does not fit spot (8.0 GiB)"),
    ],
)
async def test_with_a_cluster(nodes: Any, given: dict[str, int], wanted: str) -> None:
    needs, report = of(11), Report("job")
    needs.given = given
    await Preflight(FakeApi({"GET /api/v1/nodes": nodes}), "vision", [GOOD], needs=needs).check(GOOD, report)
    assert [found for found in report.findings if wanted in found.message]
    assert not report.refused


def check(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_without_a_cluster(tmp_path: Path) -> None:
    (path := tmp_path / "memory.json").write_text(json.dumps(ESTIMATE.as_json()))
    (job := tmp_path / "job.yaml").write_text(yaml.safe_dump(changed(GOOD, {})))
    options = [str(job), "--offline", "--memory", str(path)]
    assert "how much memory its accelerators have is not known" in check(*options).stdout
    found = check(*options, "--accelerator-memory", "spot=15Gi")
    assert "spec.capacity.tiers[spot]: a batch of 8 fits spot (15.0 GiB): its tensors need 10 B" in found.stdout
    assert found.exit_code == 0
    wrong = check(*options, "--accelerator-memory", "sopt=15Gi").exception
    assert isinstance(wrong, CliError)
    assert (str(wrong), wrong.exit_code) == ("--accelerator-memory: no tier is named sopt; tiers: spot", 2)
    for bad in (["--accelerator-memory", "15Gi"], ["--accelerator-memory", "spot=much"]):
        assert check(*options, *bad).exit_code == 2
    assert check(str(job), "--offline", "--accelerator-memory", "spot=15Gi").exit_code == 2
