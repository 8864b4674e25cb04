"""`holdfast probe` as a person types it, against an API server with scripted answers."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from tests.unit.cli.probe.test_manifests import CPU, RAW, SPOT
from tests.unit.cli.probe.test_measure import DONE, FAILURE
from typer.testing import CliRunner

from holdfast.api.names import LABEL_PROBE_OF
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import live_list
from holdfast_cli.main import app
from holdfast_cli.probe import running
from holdfast_cli.probe.manifests import PROBES
from holdfast_cli.trial_jobs import cleaning

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/vision/trainingjobs"
PODS = "/api/v1/namespaces/vision/pods"
PROFILE = "/apis/holdfast.dev/v1alpha1/capacityprofiles/gpus"
ACQUIRING = {"phase": "Acquiring", "attempt": 1}
Statuses = dict[str, dict[str, Any]]


class World:
    """A cluster in which each probe has a status from the beginning. `made`: the manifests, in their order."""

    def __init__(self, api: FakeApi, statuses: Statuses) -> None:
        self.api, self.statuses = api, statuses
        self.jobs: dict[str, dict[str, Any]] = {}
        self.made: list[dict[str, Any]] = []
        self.on_create: Callable[[], object] = lambda: None
        api.watches[JOBS] = []
        api.answers |= {
            ("GET", JOBS): lambda _: listing(*self.jobs.values()),
            ("POST", JOBS): self.create,
            ("GET", PODS): listing(),
        }
        for name in statuses:
            api.answers["DELETE", f"{JOBS}/{name}"] = self.delete

    def create(self, body: dict[str, Any] | None) -> dict[str, Any]:
        assert body is not None
        name = body["metadata"]["name"]
        if name in self.jobs:
            return {**failure(409, "AlreadyExists", "exists"), "code": 409}
        meta = {**body["metadata"], "namespace": "vision", "uid": f"uid-{name}", "resourceVersion": "7"}
        self.made.append(body)
        self.jobs[name] = {**body, "metadata": meta, "status": self.statuses[name]}
        self.api.watches[JOBS].append([{"type": "ADDED", "object": self.jobs[name]}])
        self.on_create()
        return self.jobs[name]

    def delete(self, body: dict[str, Any] | None) -> dict[str, Any]:
        assert body is not None
        uid = body["preconditions"]["uid"]
        self.jobs = {name: raw for name, raw in self.jobs.items() if raw["metadata"]["uid"] != uid}
        return {}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(live_list, "PAUSE", 0.01)
    monkeypatch.setattr(running, "TICK", 0.01)
    monkeypatch.setattr(cleaning, "LOOK_EVERY", 0.01)
    with fake_api() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        yield server


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A job whose checkpoints are on a volume, which only pods can reach."""
    return written(tmp_path, checkpoint={"storage": {"volumeClaim": {"name": "data", "path": "vit"}}})


def written(tmp_path: Path, **spec: Any) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**RAW, "spec": {**RAW["spec"], **spec}}))
    return str(path)


def probe(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["probe", *arguments])
    assert result.exit_code == code, result.output
    return result


# Breaks if a tier is left out, or a probe stays; or if what cannot be read or removed is not said.
def test_every_tier_is_measured_and_removed(api: FakeApi, file: str, tmp_path: Path) -> None:
    world = World(api, {"vit-probe-spot": DONE, "vit-probe-cpu": DONE})
    patch = tmp_path / "paces.yaml"
    result = probe(file, "-o", "json", "--patch", str(patch))
    answer = json.loads(result.stdout)
    assert [(one["tier"], one["outcome"], one["pace"]) for one in answer["tiers"]] == [
        ("spot", "Measured", "1s"),
        ("cpu", "Measured", "1s"),
    ]
    assert answer["paces"] == {"spot": "1s", "cpu": "1s"}
    assert answer["tiers"][0]["costOfMillionSteps"] == "277.7778"
    assert len(world.made) == 2
    assert world.jobs == {}
    assert "note:  what the probes stored stays" in result.stderr
    assert "note:  the times of single steps cannot be read" in result.stderr
    assert "2 probes of 60 steps, which cost at most 0.5611" in result.stderr
    assert "kubectl patch trainingjob vit -n vision --type=merge --patch-file paces.yaml" in patch.read_text()
    assert [one["pace"] for one in yaml.safe_load(patch.read_text())["spec"]["capacity"]["tiers"]] == ["1s", "1s"]


# Breaks if an earlier probe that was killed is in the way.
def test_what_an_earlier_probe_left_is_removed_first(api: FakeApi, file: str) -> None:
    world = World(api, {"vit-probe-spot": DONE, "vit-probe-old": DONE})
    meta = {"name": "vit-probe-old", "uid": "old", "labels": {LABEL_PROBE_OF: "vit"}}
    world.jobs["vit-probe-old"] = {**RAW, "metadata": meta}
    world.on_create = lambda: order.append(list(world.jobs))
    order: list[list[str]] = []
    assert "removed 1 of an earlier probe" in probe(file, "--tier", "spot").stderr
    assert order == [["vit-probe-spot"]]


def test_a_job_of_that_name_that_is_no_probe_stays(api: FakeApi, file: str) -> None:
    world = World(api, {"vit-probe-spot": DONE})
    api.answers["POST", JOBS] = {**failure(409, "AlreadyExists", "exists"), "code": 409}
    output = probe(file, "--tier", "spot", code=1).output
    assert "TrainingJob vit-probe-spot exists, and is not a probe: it lacks the label holdfast.dev/probe-of" in output
    assert world.made == []
    assert not [request for request in api.requests if request[0] == "DELETE"]


def test_a_tier_without_a_node_is_no_error_but_a_failure_is(api: FakeApi, file: str) -> None:
    world = World(api, {"vit-probe-spot": ACQUIRING, "vit-probe-cpu": DONE})
    result = probe(file, "--acquire-timeout", "1s")
    assert "spot: no node within 1s" in result.stdout
    assert world.jobs == {}
    world.statuses["vit-probe-spot"] = {"phase": "Failed", "history": [FAILURE]}
    assert "CUDA out of memory" in probe(file, code=1).stdout
    assert world.jobs == {}


# Breaks if the command waits for a probe that somebody else deleted.
def test_a_probe_that_somebody_deletes_is_said(api: FakeApi, file: str) -> None:
    world = World(api, {"vit-probe-spot": ACQUIRING})

    def take_away() -> None:
        gone = world.jobs["vit-probe-spot"]
        api.watches[JOBS].append([{"type": "DELETED", "object": gone}])

    world.on_create = take_away
    assert "spot: the probe was deleted by somebody else" in probe(file, "--tier", "spot", code=1).stdout


# Breaks if a cluster that refuses the deletion takes the result along, or what is left is not said.
def test_probes_that_cannot_be_deleted_are_said(api: FakeApi, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "PAUSES", (0.0, 0.0))
    World(api, {"vit-probe-spot": DONE})
    api.answers["DELETE", f"{JOBS}/vit-probe-spot"] = {**failure(403, "Forbidden", "you may not"), "code": 403}
    result = probe(file, "--tier", "spot", "-o", "yaml")
    assert yaml.safe_load(result.stdout)["paces"] == {"spot": "1s"}
    assert "kubectl delete trainingjobs -n vision -l holdfast.dev/probe-of=vit" in result.stderr


def test_keep_leaves_the_probes(api: FakeApi, file: str) -> None:
    world = World(api, {"vit-probe-spot": DONE})
    probe(file, "--tier", "spot", "--keep")
    assert list(world.jobs) == ["vit-probe-spot"]


# Breaks if a signal ends the command before the probes are removed.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_removes_the_probes(
    api: FakeApi, file: str, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    if number == signal.SIGHUP:  # under nohup this process ignores it, and so would the command
        request.addfinalizer(partial(signal.signal, number, signal.signal(number, signal.SIG_DFL)))
    world = World(api, {"vit-probe-spot": ACQUIRING})
    world.on_create = lambda: os.kill(os.getpid(), number)
    result = probe(file, "--tier", "spot", code=130)
    assert "interrupted: the probes are being removed" in result.stderr
    assert len(world.made) == 1
    assert world.jobs == {}


def test_tiers_of_a_profile_are_those_of_the_cluster(api: FakeApi, tmp_path: Path) -> None:
    claim = {"storage": {"volumeClaim": {"name": "data", "path": "vit"}}}
    file = written(tmp_path, capacity={"profile": "gpus"}, checkpoint=claim)
    tier = {**SPOT, "runtimeClassName": "nvidia"}
    api.answers["GET", PROFILE] = {"metadata": {"name": "gpus"}, "spec": {"tiers": [tier, CPU]}}
    world = World(api, {"vit-probe-spot": DONE})
    patch = tmp_path / "paces.yaml"
    result = probe(file, "--tier", "spot", "--patch", str(patch))
    assert world.made[0]["spec"]["capacity"]["tiers"] == [SPOT]
    assert "the probe of spot ran without runtimeClassName of the profile's tier" in result.stderr
    assert "kubectl patch capacityprofile gpus --type=merge" in patch.read_text()
    assert yaml.safe_load(patch.read_text())["spec"]["tiers"] == [{**tier, "pace": "1s"}, CPU]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tier", "gold"), "no tier is named so; tiers of the job: spot, cpu"),
        (("--steps", "11"), "must be at least 12"),
        (("--acquire-timeout", "2d"), "must be between 1s and 24h"),
        (("--timeout", "soon"), "must be a duration"),
        (("--accelerators", "0"), "must be at most 6 numbers from 1 to 64, such as 1,4"),
        (("--accelerators", "1,²"), "must be at most 6 numbers"),
        (("--accelerators", "1,2,3,4,5,6,7"), "must be at most 6 numbers"),
        (("--namespace", "other"), "the job of the file is in vision"),
        (("--patch", "/no/such/folder/x"), "its folder does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_line_makes_nothing(
    api: FakeApi, file: str, arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    world = World(api, {})
    assert words in probe(file, *arguments, code=2).output
    assert world.made == []


def test_a_file_without_one_job_is_refused(api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump_all([RAW, RAW]))
    assert "2 TrainingJobs; probe needs exactly one" in probe(str(path), code=1).output


# Breaks if what a probe stored is deleted while one of its pods may still write.
def test_storage_is_emptied_after_the_pods_ended(api: FakeApi) -> None:
    asked: list[int] = []

    def pods(_: Any) -> dict[str, Any]:
        asked.append(1)
        return listing({"status": {"phase": "Running"}} if len(asked) < 3 else {"status": {"phase": "Failed"}})

    World(api, {"vit-probe-spot": ACQUIRING})
    api.answers["GET", PODS] = pods

    async def remove() -> None:
        async with await Client.from_kubeconfig() as client:
            raw = {"metadata": {"name": "vit-probe-spot", "uid": "u"}, "status": ACQUIRING}
            await asyncio.wait_for(cleaning.Cleaner(client, "vision", RAW, PROBES).remove(raw), 20)

    asyncio.run(remove())
    assert len(asked) == 3
