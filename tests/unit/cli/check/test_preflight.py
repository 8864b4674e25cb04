"""What the cluster is asked, and what is made of its answers."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.manifests.good_manifests import GOOD, GOOD_PROFILE, changed

from holdfast.runtime.errors import ApiError
from holdfast_cli.check.findings import Report
from holdfast_cli.check.memory_room import State
from holdfast_cli.check.preflight import Preflight

Answer = dict[str, Any] | ApiError
JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/vision/trainingjobs"
SECRET = "/api/v1/namespaces/vision/secrets/keys"
CREDENTIALS = {"spec/checkpoint/storage/s3/credentialsSecret": "keys"}
PROFILE = {"spec/capacity": {"profile": "good"}}
NODE = {
    "metadata": {"name": "n1", "uid": "u1", "labels": {"holdfast.dev/tier": "spot"}},
    "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
NOT_FOUND = ApiError(404, "NotFound", "not found")
FORBIDDEN = ApiError(403, "Forbidden", "no")


class FakeApi:
    """Answers from a table; what is not in it does not exist. Remembers what was asked."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = {f"POST {JOBS}": {}, "GET /api/v1/nodes": {"items": [NODE]}, **answers}
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str | int] | None = None,
        content_type: str | None = None,
    ) -> dict[str, Any]:
        self.asked.append((f"{method} {path}", params or {}))
        answer = self.answers.get(f"{method} {path}", NOT_FOUND)
        if isinstance(answer, ApiError):
            raise answer
        return answer


async def findings(
    answers: Mapping[str, Answer], change: Mapping[str, Any], *others: dict[str, Any]
) -> tuple[list[str], bool]:
    manifest, report = changed(GOOD, change), Report("job")
    await Preflight(FakeApi(answers), "vision", [manifest, *others]).check(manifest, report)
    return [f"{found.severity} {found.field}: {found.message}" for found in report.findings], report.refused


async def test_a_job_that_could_run() -> None:
    found, refused = await findings({}, {})
    assert not refused
    assert found == [
        "ok cluster: the API server would create the object",
        "ok spec.capacity.tiers[spot]: 1 of 1 nodes with its labels could run the pod",
    ]


JOB = f"GET {JOBS}/good"
SAVED = {"step": 900, "uri": "s3://b/p", "bytes": 30 << 30, "committedAt": "2026-11-21T09:00:00Z"}
SHORT = {"type": "MemoryShort", "status": "True", "reason": "NoRoomForSave", "message": "a save does not fit",
         "lastTransitionTime": "2026-11-21T09:00:00Z"}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"checkpoint": SAVED}, "warning spec.trainer.resources.memory: 8Gi has no room for the copy of the state"),
        ({"conditions": [SHORT]}, "warning spec.trainer.resources.memory: its trainer reports: a save does not fit"),
        ({"conditions": [SHORT], "checkpoint": {**SAVED, "bytes": 1}}, "warning spec.trainer.resources.memory: its tr"),
        ({"attempt": "x"}, None),
        ({}, None),
    ],
)
async def test_a_job_that_exists_says_if_a_save_fits_into_its_memory(status: dict[str, Any], said: str | None) -> None:
    """Breaks if a job whose save does not fit gets no message before the kernel kills it."""
    found, refused = await findings({JOB: {**GOOD, "status": status}}, {})
    assert not refused
    about = [line for line in found if "resources.memory" in line]
    assert [line.startswith(said or "-") for line in about] == [True] * (said is not None)


@pytest.mark.parametrize(
    ("put_back", "said"),
    [
        ("All", "the next start puts back all of /outputs, 30.0 GiB, less what is there; putBack: Newest"),
        ("Newest", "the next start puts back /outputs without old saves; putBack: All is all of it, 30.0 GiB"),
    ],
)
async def test_a_folder_says_what_a_start_puts_back(put_back: str, said: str) -> None:
    """Breaks if a folder of many saves costs an hour at each interruption without a word before, or if it is taken for
    a state that has to fit into the memory."""
    spec = {**GOOD["spec"], "checkpoint": {**GOOD["spec"]["checkpoint"], "folder": "/outputs", "putBack": put_back}}
    folder = {**GOOD, "spec": spec}
    report = Report("job")
    await Preflight(FakeApi({JOB: {**folder, "status": {"checkpoint": SAVED}}}), "vision", []).check(folder, report)
    (found,) = [f.message for f in report.findings if f.field.endswith(("putBack", "memory"))]
    assert found.startswith(said)
    new = Report("job")
    await Preflight(FakeApi({}), "vision", [], State(30 << 30, "given")).check(folder, new)
    assert not [f for f in new.findings if f.field.endswith(("putBack", "memory"))]


async def test_the_size_of_the_state_may_be_given() -> None:
    report = Report("job")
    await Preflight(FakeApi({}), "vision", [GOOD], State(1 << 20, "given by --state")).check(GOOD, report)
    assert [f.message for f in report.findings if f.field.endswith("memory")] == [
        "8Gi has room for the copy of the state that a save makes (0.0Gi: given by --state)"
    ]


async def test_nothing_is_changed() -> None:
    api, report = (
        FakeApi({f"POST {JOBS}": ApiError(409, "AlreadyExists", "there"), f"PATCH {JOBS}/good": {}}),
        Report("a"),
    )
    await Preflight(api, "vision", []).check(GOOD, report)
    writes = [params for request, params in api.asked if not request.startswith("GET")]
    assert len(writes) == 2
    assert all(params["dryRun"] == "All" and params["fieldValidation"] == "Strict" for params in writes)
    assert "would change it" in report.findings[0].message


@pytest.mark.parametrize("verb", ["POST", "PATCH"])
async def test_a_refusal_is_an_error_in_the_servers_words(verb: str) -> None:
    answers: dict[str, Answer] = {f"POST {JOBS}": ApiError(409, "AlreadyExists", "there")}
    answers[f"{verb} {JOBS}" + ("/good" if verb == "PATCH" else "")] = ApiError(422, "Invalid", "spec.trainer: fixed")
    found, refused = await findings(answers, {})
    assert refused
    assert found[0] == "error cluster: spec.trainer: fixed"


async def test_a_cluster_without_holdfast_is_named() -> None:
    missing = ApiError(404, "NotFound", "the server could not find the requested resource")
    found, refused = await findings({f"POST {JOBS}": missing}, {})
    assert refused
    assert "install Holdfast first" in found[0]


@pytest.mark.parametrize("status", [0, 401, 503])
async def test_a_cluster_that_does_not_answer_has_not_refused_the_job(status: int) -> None:
    with pytest.raises(ApiError):
        await findings({f"POST {JOBS}": ApiError(status, "X", "y")}, {})


async def test_a_tier_without_nodes_is_a_warning() -> None:
    found, refused = await findings({"GET /api/v1/nodes": {"items": []}}, {})
    assert not refused
    assert found[1].startswith("warning spec.capacity.tiers[spot]: no node has its labels")


async def test_scratch_space_counts() -> None:
    found, _ = await findings({}, {"spec/trainer/resources/ephemeralStorage": "200Gi"})
    assert "a pod asks for more than any of them has: ephemeral-storage 200Gi, and a node has at most 0." in found[1]


async def test_a_tier_whose_nodes_are_too_small_says_why() -> None:
    found, _ = await findings({}, {"spec/trainer/acceleratorsPerNode": 8})
    assert "a pod asks for more than any of them has: nvidia.com/gpu 8, and a node has at most 1." in found[1]
    assert found[1].endswith("or name a tier with larger nodes; otherwise something has to bring a larger node")


async def test_nodes_that_may_not_be_seen_are_not_missing() -> None:
    found, _ = await findings({"GET /api/v1/nodes": FORBIDDEN}, {})
    assert "this user may not list nodes" in found[1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            NOT_FOUND,
            'warning spec.checkpoint.storage.s3.credentialsSecret: Secret "keys" is missing in namespace vision',
        ),
        (FORBIDDEN, "may not be read by this user"),
        ({"data": {"AWS_ACCESS_KEY_ID": "x"}}, 'Secret "keys" has no key AWS_SECRET_ACCESS_KEY'),
        ({"data": {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}}, 'Secret "keys" exists'),
    ],
)
async def test_secrets_are_looked_for(answer: Answer, words: str) -> None:
    found, refused = await findings({f"GET {SECRET}": answer}, CREDENTIALS)
    assert not refused
    assert words in found[-1]


async def test_what_the_file_brings_along_is_not_missing() -> None:
    secret = {
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"},
    }
    found, _ = await findings({}, {**CREDENTIALS, **PROFILE}, secret, GOOD_PROFILE)
    assert "ok spec.capacity.profile: 2 tiers: spot, cpu" in found
    assert found[-1].endswith('Secret "keys" exists')


async def test_optional_objects_may_be_missing() -> None:
    reference = {"name": "keys", "key": "k", "optional": True}
    found, _ = await findings({}, {"spec/trainer/env": [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]})
    assert len(found) == 2


async def test_a_missing_profile_is_named() -> None:
    found, _ = await findings({}, PROFILE)
    assert found[1] == 'warning spec.capacity.profile: capacityprofile "good" is missing'


async def test_a_profile_that_cannot_be_read_is_named() -> None:
    path = "GET /apis/holdfast.dev/v1alpha1/capacityprofiles/good"
    found, _ = await findings({path: {"metadata": {"name": "good"}, "spec": {"tiers": []}}}, PROFILE)
    assert "cannot be used: spec.tiers: 0 items: must have at least 1 items" in found[1]


async def test_the_tiers_of_a_profile_are_matched_by_labels() -> None:
    api = FakeApi({"POST /apis/holdfast.dev/v1alpha1/capacityprofiles": {}})
    report = Report("profile")
    await Preflight(api, "vision", []).check(GOOD_PROFILE, report)
    assert [found.message for found in report.findings][1:] == ["1 nodes have its labels"] * 2


@pytest.mark.parametrize(
    ("observation", "words"), [("Free", "no autoscaler brings more"), ("Billed", "unless an autoscaler brings more")]
)
async def test_a_tier_with_too_few_nodes_for_the_training_is_a_warning(observation: str, words: str) -> None:
    changes = {"spec/trainer/nodes": 3, "spec/capacity/tiers/0/observation": observation}
    found, refused = await findings({}, changes)
    assert not refused
    assert found[1].startswith("warning spec.capacity.tiers[spot]: 1 of 1 nodes with its labels could run the pods")
    assert found[1].endswith(f"spec.trainer.nodes is 3: the training cannot run here; {words}")
