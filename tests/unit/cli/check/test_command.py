"""`holdfast check --offline`, as people type it."""

import json
from pathlib import Path

import pytest
import yaml
from tests.support.manifests.bad_manifests import BAD
from tests.support.manifests.good_manifests import GOOD, GOOD_PROFILE, Bad, changed
from typer.testing import CliRunner, Result

from holdfast_cli import main
from holdfast_cli.check.command import app
from holdfast_cli.errors import CliError, ExitCode

ROOT = Path(__file__).parents[4]


def check(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def written(folder: Path, *manifests: dict[str, object]) -> str:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    return str(path)


def test_a_good_file_is_accepted(tmp_path: Path) -> None:
    result = check(written(tmp_path, GOOD, GOOD_PROFILE), "--offline")
    assert result.exit_code == 0
    assert "trainingjob/good: would be accepted" in result.stdout
    assert "capacityprofile/good: would be accepted" in result.stdout


def test_the_memory_of_a_save_is_checked_without_a_cluster(tmp_path: Path) -> None:
    result = check(written(tmp_path, GOOD, GOOD_PROFILE), "--offline", "--state", "12Gi")
    assert result.exit_code == 0, "it is a warning"
    assert "8Gi has no room for the copy of the state that a save makes (12.0Gi: given by --state)" in result.stdout


@pytest.mark.parametrize("wrong", ["much", "0", "-1Gi", "1m"])
def test_a_wrong_size_of_the_state_is_refused(tmp_path: Path, wrong: str) -> None:
    result = check(written(tmp_path, GOOD), "--offline", "--state", wrong)
    assert result.exit_code == 2
    assert "--state" in result.output


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_bad_file_is_refused(bad: Bad, tmp_path: Path) -> None:
    result = check(written(tmp_path, bad.manifest()), "--offline")
    assert result.exit_code == ExitCode.FAILED
    assert "would be refused" in result.stdout
    for part in (bad.field, bad.value, bad.offline or bad.allowed):
        assert part in result.stdout


def test_all_problems_are_shown_at_once(tmp_path: Path) -> None:
    bad = changed(GOOD, {"spec/trainer/image": "", "spec/goal": {"steps": 0}, "spec/nodes": 2})
    lines = check(written(tmp_path, bad), "--offline").stdout.splitlines()
    assert [line.split(":")[1].strip() for line in lines[1:]] == ["spec.nodes", "spec.trainer.image", "spec.goal.steps"]


def test_json_is_for_programs(tmp_path: Path) -> None:
    result = check(written(tmp_path, changed(GOOD, {"spec/goal": {"steps": 0}})), "--offline", "-o", "json")
    (report,) = json.loads(result.stdout)
    assert report == {
        "object": "trainingjob/good",
        "file": str(tmp_path / "job.yaml"),
        "checked": True,
        "refused": True,
        "findings": [{"severity": "error", "field": "spec.goal.steps", "message": "0: must be at least 1"}],
    }


def test_other_objects_of_a_file_are_left_alone(tmp_path: Path) -> None:
    secret: dict[str, object] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    result = check(written(tmp_path, secret, GOOD), "--offline")
    assert result.exit_code == 0
    assert "secret/a: not an object of Holdfast, not checked" in result.stdout


def test_standard_input_is_a_file_too() -> None:
    assert check("-", "--offline", stdin=yaml.safe_dump(GOOD)).exit_code == 0


def test_without_a_cluster_it_says_how_to_do_without(tmp_path: Path) -> None:
    result = check(written(tmp_path, GOOD), "--kubeconfig", str(tmp_path / "none"))
    assert isinstance(result.exception, CliError)
    assert result.exception.exit_code is ExitCode.NO_ANSWER
    assert "--offline" in result.exception.hint


def test_no_cluster_is_needed_to_refuse(tmp_path: Path) -> None:
    bad = written(tmp_path, changed(GOOD, {"spec/goal": {"steps": 0}}))
    assert check(bad, "--kubeconfig", str(tmp_path / "none")).exit_code == ExitCode.FAILED


def test_the_smallest_example_is_small_and_good() -> None:
    path = ROOT / "examples" / "smallest.yaml"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 15
    assert check(str(path), "--offline").exit_code == 0


# Breaks if people have to call the command once for each file, or if a file cannot refer to another one.
@pytest.mark.parametrize("line", ["{0}/a.yaml {0}/b.json", "-f {0}/a.yaml -f {0}/b.json", "{0}", "-f {0}"])
def test_several_files_are_one_set(tmp_path: Path, line: str) -> None:
    written(tmp_path, GOOD)
    (tmp_path / "job.yaml").rename(tmp_path / "a.yaml")
    (tmp_path / "b.json").write_text(json.dumps(changed(GOOD_PROFILE, {"spec/tiers": []})), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not a manifest", encoding="utf-8")
    result = check(*line.format(tmp_path).split(), "--offline")
    assert result.exit_code == ExitCode.FAILED
    assert f"trainingjob/good in {tmp_path / 'a.yaml'}: would be accepted" in result.stdout
    assert f"capacityprofile/good in {tmp_path / 'b.json'}: would be refused" in result.stdout


def test_of_several_files_one_that_is_not_yaml_hides_no_other_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [", encoding="utf-8")
    (tmp_path / "b.yml").write_text("# nothing yet\n", encoding="utf-8")
    written(tmp_path, GOOD)
    result = check(str(tmp_path), "--offline")
    assert result.exit_code == ExitCode.FAILED
    assert "a.yaml is not YAML: line 1" in result.stdout
    assert "trainingjob/good" in result.stdout
    assert "b.yml" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], ExitCode.USAGE, "name a file, a folder, or - for standard input"),
        (["none.yaml"], ExitCode.NOT_FOUND, "none.yaml cannot be read: No such file"),
        (["empty"], ExitCode.NOT_FOUND, "empty is a folder without a file that ends in .json, .yaml, .yml"),
        (["job.yaml", "--memory", "none"], ExitCode.NOT_FOUND, "--memory none cannot be read: No such file"),
    ],
)
def test_a_place_without_a_manifest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: ExitCode, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    written(tmp_path, GOOD)
    result = CliRunner().invoke(main.app, ["check", "--offline", *arguments])
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_an_object_that_is_written_twice_is_named(tmp_path: Path) -> None:
    result = check(written(tmp_path, GOOD, GOOD_PROFILE, GOOD), "--offline")
    assert result.exit_code == 0, "kubectl applies it"
    assert result.stdout.count("is also in") == 1


# Breaks if a rule that needs the whole job refuses what `kubectl create` accepts.
def test_a_job_whose_name_the_server_makes_is_accepted(tmp_path: Path) -> None:
    result = check(written(tmp_path, {**GOOD, "metadata": {"generateName": "run-"}}), "--offline", "--state", "1Gi")
    assert result.exit_code == 0, result.output
    assert "trainingjob/run-: would be accepted" in result.stdout
