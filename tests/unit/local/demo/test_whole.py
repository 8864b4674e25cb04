"""The demo from end to end: its commands, what it checks, and what it leaves."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.support.manifests.observed_jobs import running_job
from tests.unit.local.demo.test_stage import NOW, S3

from holdfast_local.demo import whole
from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.stage import example, job_manifest
from holdfast_local.demo.stories import PACKAGED
from holdfast_local.demo.whole import (
    check_packaging,
    left_behind,
    pace_of,
    package_checks,
    package_command,
    plan_command,
)

MANIFEST = job_manifest(example(PACKAGED.example), S3, NOW)
JOB = running_job()
SAVED = JOB.status.checkpoint
assert SAVED is not None


def test_the_plan_has_one_pace_and_no_cpu_tier() -> None:
    command = plan_command(MANIFEST, "30ms")  # 1,200 steps: 36 s
    assert command[:3] == ["holdfast", "plan", "job.yaml"]
    assert command[command.index("--deadline") + 1] == "4m"
    assert [command[i + 1] for i, part in enumerate(command) if part == "--pace"] == ["dedicated=30ms"]
    assert command[command.index("--without") + 1] == "cpu"


# Breaks if the package is made for a model of another size than the one that was trained.
def test_the_package_gets_the_sizes_of_the_training() -> None:
    arguments = [part for part in package_command(MANIFEST) if part.startswith("--argument")]
    assert arguments == ["--argument=--patch=8", "--argument=--dim=64", "--argument=--layers=2"]


@pytest.mark.parametrize("answer", ["", "[]", "{}", '{"paces": {}}', '{"paces": {"spot": '])
def test_a_probe_without_a_pace_is_an_error(answer: str) -> None:
    assert pace_of('{"paces": {"spot": "29ms"}}', "spot") == "29ms"
    with pytest.raises(DemoError, match="no time of a step on spot"):
        pace_of(answer, "spot")


def package(**changes: Any) -> dict[str, Any]:
    assert SAVED is not None
    variants = {"onnx": {"tested": {"passed": True}}, "pt2": {"tested": {"passed": True}}}
    return {"from": {"step": 240, "manifest": SAVED.uri}, "variants": variants, **changes}


EVALUATION: dict[str, Any] = {"results": [{}, {}], "ships": {"variant": "onnx"}, "failed": []}


def test_what_is_true_of_a_package() -> None:
    found = package_checks(JOB, package(failed={"onnx-int8": "accuracy is 0.4"}), EVALUATION)
    assert [check.passed for check in found] == [True, True, True]
    assert [check.text for check in found] == [
        "the package is of step 240, the newest checkpoint",
        "2 forms passed their tests and are in the package; 1 was refused",
        "2 forms have a score on new pictures; onnx ships",
    ]


# Breaks if the demo ends with 0 although its package is of another checkpoint, has untested forms, or has no score.
@pytest.mark.parametrize(
    ("document", "evaluation", "wrong"),
    [
        (package(**{"from": {"step": 200, "manifest": "s3://runs/x/manifests/y.json"}}), EVALUATION, 0),
        (package(variants={}), EVALUATION, 1),
        (package(variants={"tflite": {"tested": None}}), EVALUATION, 1),
        (package(), None, 2),
        (package(), EVALUATION | {"ships": None}, 2),
        (package(), EVALUATION | {"failed": [{"variant": "onnx"}]}, 2),
    ],
    ids=["other checkpoint", "nothing", "not tested", "not evaluated", "none ships", "no score"],
)
def test_what_is_not_true_is_said(document: dict[str, Any], evaluation: dict[str, Any] | None, wrong: int) -> None:
    found = [check.passed for check in package_checks(JOB, document, evaluation)]
    assert found == [number != wrong for number in range(3)]


def test_what_is_left_is_named_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "report.html").touch()
    _, report, package = [line.plain.strip() for line in left_behind(tmp_path)]
    assert report.startswith(f"{tmp_path / 'model/report.html'} ")
    assert package.startswith(f"{tmp_path / 'model'} ")


def test_a_library_that_is_missing_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    check_packaging()
    there = importlib.util.find_spec
    monkeypatch.setattr(
        whole.importlib.util, "find_spec", lambda name: None if name.startswith("onnx") else there(name)
    )
    with pytest.raises(DemoError, match="not installed beside holdfast: onnx, onnxruntime, onnxscript") as caught:
        check_packaging()
    assert "make setup" in caught.value.hint
