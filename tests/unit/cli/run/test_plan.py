"""What is known of a run before its folder is read: its name, its profile, and where its storage is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from tests.support.manifests.observed_jobs import raw_job

from holdfast.api.objects import TrainingJob
from holdfast.api.review import review
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError
from holdfast_cli.run.plan import Planned, default_name, plan
from holdfast_cli.run.training import chosen_endpoint
from holdfast_cli.run.wanted import Wanted, layered

PROFILES = "/apis/holdfast.dev/v1alpha1/capacityprofiles"
JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
S3 = {"bucket": "runs", "prefix": "team"}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with fake_api() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield server


# Breaks if a program has a name of which no job can be made, or two runs of it have one name.
@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (("python3", "train.py"), "train-"),
        (("torchrun", "--nproc-per-node=8", "src/Train_It.py", "--data=x.py"), "train-it-"),
        (("python3", "-m", "pkg.train"), "python3-"),
        (("./9lives.sh",), "run-9lives-"),
        (("___.py",), "run-"),
        (("x" * 80 + ".py",), "x" * 34 + "-"),
        (("a-" * 40 + ".py",), "a-" * 17),
        (("1-" * 40 + ".py",), "run-1-1-"),
    ],
)
def test_a_name_for_each_program(command: tuple[str, ...], begins: str) -> None:
    raw = raw_job()
    raw["metadata"]["name"] = name = default_name(command)
    assert review(raw) == ()
    assert TrainingJob.parse(raw).metadata.name.startswith(begins)
    assert default_name(command) != name


def profile(name: str) -> dict[str, Any]:
    tier = {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu"}
    defaults = {"image": "of-profile:1", "storage": {"s3": {**S3, "endpoint": "http://of-profile"}}}
    spec = {"tiers": [tier], "defaults": defaults}
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "CapacityProfile", "metadata": {"name": name}, "spec": spec}


async def planned(said: Wanted, api: FakeApi) -> Planned:
    api.answers["GET", f"{JOBS}/mine"] = failure(404, "NotFound", 'trainingjobs.holdfast.dev "mine" not found')
    async with connect(Target(None, "demo")) as client:
        return await plan(client, "demo", said, ["python3", "train.py"])


# Breaks if a run takes another profile than the one that is meant, or needs more rights than to read that.
async def test_the_profile(api: FakeApi) -> None:
    api.answers["GET", PROFILES] = listing(profile("a"), profile("b"))
    api.answers["GET", f"{PROFILES}/b"] = profile("b")
    with pytest.raises(CliError, match=r"has 2 CapacityProfiles, and none is chosen; it has: a, b"):
        await planned(Wanted(name="mine"), api)
    api.requests.clear()
    found = await planned(Wanted(name="mine", profile="b"), api)
    assert (found.wanted.profile, found.wanted.image) == ("b", "of-profile:1")
    assert [path for _, path, _ in api.requests] == [f"{PROFILES}/b", f"{JOBS}/mine"]
    api.answers["GET", PROFILES] = listing(profile("a"))
    assert (await planned(Wanted(name="mine", image="own:1"), api)).wanted.image == "own:1"


# Breaks if a person who lacks a right is told to ask for another one.
async def test_a_person_who_may_not_read_profiles(api: FakeApi) -> None:
    api.answers["GET", PROFILES] = failure(403, "Forbidden", "cannot list capacityprofiles")
    with pytest.raises(CliError, match="cannot list") as caught:
        await planned(Wanted(name="mine"), api)
    assert "holdfast-profiles" in caught.value.hint


# Breaks if a person's own keys go to a server that the folder or the platform names, and not the person.
@pytest.mark.parametrize(
    ("by_person", "by_others", "chosen"),
    [
        ({"endpoint": "http://mine"}, {}, "http://mine"),
        ({}, {"endpoint": "http://other"}, None),
        ({"endpoint": "http://mine", "proxy": "http://proxy:3128"}, {}, None),
    ],
)
def test_where_own_keys_may_go(by_person: dict[str, str], by_others: dict[str, str], chosen: str | None) -> None:
    person = Wanted.model_validate({"storage": {"s3": {**S3, **by_person}}} if by_person else {})
    others = Wanted.model_validate({"storage": {"s3": {**S3, **by_others}}})
    made = Planned(layered(person, others), "demo", ["x"])
    assert chosen_endpoint(made, person) == chosen
