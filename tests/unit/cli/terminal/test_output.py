"""The answers of commands for programs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.http.scripted_api_server import FakeApi, fake_api, listing
from tests.support.manifests.observed_jobs import raw_job
from typer.testing import CliRunner, Result

from holdfast_cli.main import app

NAMESPACE = "/apis/holdfast.dev/v1alpha1/namespaces/demo"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    job = raw_job()
    job["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    item = {key: value for key, value in raw_job().items() if key not in ("apiVersion", "kind")}
    with fake_api() as server:
        server.answers = {
            ("GET", f"{NAMESPACE}/trainingjobs/job"): job,
            ("GET", f"{NAMESPACE}/trainingjobs"): listing(item),
            ("GET", "/api/v1/namespaces/demo/events"): listing(),
            ("GET", "/apis/holdfast.dev/v1alpha1/capacityprofiles"): listing(),
            ("GET", "/api/v1/nodes"): listing(),
            ("GET", "/api/v1/pods"): listing(),
            ("GET", "/version"): {"gitVersion": "v1.35.0"},
        }
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.delenv("COLUMNS", raising=False)
        yield server


def holdfast(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


# Breaks if one of the commands prints something beside the object, or another object as YAML than as JSON.
@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("line", "where", "value"),
    [
        ("watch", "kind", "List"),
        ("watch job", "kind", "TrainingJob"),
        ("describe job", "events", []),
        ("why job", "job", {"namespace": "demo", "name": "job"}),
        ("nodes", "nodes", []),
        ("version", "kubernetes", "v1.35.0"),
    ],
)
def test_json_and_yaml_are_one_object(line: str, where: str, value: object) -> None:
    asked = [holdfast(f"{line} -o {name}") for name in ("json", "yaml")]
    assert [result.exit_code for result in asked] == [0, 0], asked[0].output
    found, same = json.loads(asked[0].stdout), yaml.safe_load(asked[1].stdout)
    assert found.keys() == same.keys()
    assert found[where] == value
    assert "managedFields" not in asked[0].stdout


# Breaks if items of a list do not say what they are: kubectl cannot apply them.
@pytest.mark.usefixtures("api")
def test_items_are_as_kubectl_prints_them() -> None:
    (item,) = json.loads(holdfast("watch -o json").stdout)["items"]
    assert (item["apiVersion"], item["kind"]) == ("holdfast.dev/v1alpha1", "TrainingJob")


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("line", ["watch -o name", "watch job -o name"])
def test_names_are_as_kubectl_prints_them(line: str) -> None:
    assert holdfast(line).stdout == "trainingjob.holdfast.dev/job\n"


@pytest.mark.usefixtures("api")
def test_wide_shows_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    titles = holdfast("watch --once").stdout.splitlines()[0].split()
    wide = holdfast("watch --once -o wide").stdout.splitlines()[0].split()
    assert "REASON" not in titles
    assert wide[-1] == "REASON"
    assert set(titles) < set(wide)


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("why job -o wide", "'wide' is not one of 'json', 'yaml'."),
    ],
)
def test_a_format_that_a_command_has_not_is_refused(line: str, words: str) -> None:
    result = holdfast(line)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
