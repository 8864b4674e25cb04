"""Commands from the command line to the API and back, against an API server with scripted answers."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from tests.support.manifests.observed_jobs import RUNNING, UID, raw_job
from tests.support.operator.fake_api_server import raw_pod
from typer.testing import CliRunner, Result

from holdfast_cli.cluster import completion, live_list, operators
from holdfast_cli.cluster.connect import Target
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app

JOB = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs/job"
JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
PROFILES = "/apis/holdfast.dev/v1alpha1/capacityprofiles"
BORN = "2026-11-01T00:00:00Z"
EVENTS = "/api/v1/namespaces/demo/events"
ALL_PODS = "/api/v1/pods"


def event(uid: str, reason: str, about: str = UID) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "creationTimestamp": "2026-11-21T09:02:00Z"},
        "involvedObject": {"uid": about},
        "reason": reason,
        "message": f"message of {reason}",
        "eventTime": "2026-11-21T09:02:00.5Z",
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A server with one running job; $KUBECONFIG points to it."""
    with fake_api() as server:
        server.answers = {
            ("GET", JOB): raw_job(),
            ("GET", JOBS): listing(raw_job(), {"metadata": {"name": "broken", "namespace": "demo"}, "spec": {}}),
            ("GET", ALL_PODS): listing(),
            ("GET", EVENTS): listing(event("1", "Mine"), event("2", "OfAnotherLife", about="other")),
        }
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.delenv("COLUMNS", raising=False)  # the test runner may set it
        yield server


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_watch_once_lists_every_job_and_names_what_cannot_be_read(api: FakeApi) -> None:
    result = holdfast("watch", "--once")
    assert result.exit_code == 0
    assert result.output.splitlines()[2].split()[:5] == ["job", "Running", "dedicated", "250", "25.0%"]
    assert "Unreadable" in result.output


def modified(kind: str = "MODIFIED", **status: Any) -> dict[str, Any]:
    return {"type": kind, "object": raw_job(status={**RUNNING, **status})}


OVER = {"phase": "Completed", "current": None}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches that end are begun again at once."""
    monkeypatch.setattr(live_list, "PAUSE", 0.01)


@pytest.mark.usefixtures("impatient")
def test_watch_ends_with_the_job_and_says_what_is_new_once(api: FakeApi) -> None:
    api.watches[JOBS] = [[modified()], [modified(), modified(**OVER)]]
    result = holdfast("watch", "job", "--every", "0.2")
    assert result.exit_code == 0, result.output
    assert result.output.count("Mine: message of Mine") == 1
    assert "OfAnotherLife" not in result.output
    phases = [line.split()[1] for line in result.output.splitlines() if "attempt=" in line]
    assert phases in (["Running", "Completed"], ["Completed"])  # both changes may come between two lines


@pytest.mark.usefixtures("impatient")
def test_watch_reads_each_list_once_and_then_watches(api: FakeApi) -> None:
    """Breaks if each update lists all jobs again."""
    api.watches[JOBS] = [[modified()] for _ in range(5)] + [[modified(**OVER)]]
    assert holdfast("watch", "job", "--every", "0.2").exit_code == 0
    reads = [path for method, path, _ in api.requests if method == "GET"]
    assert sorted(reads) == sorted([JOB, JOBS, EVENTS, operators.PATH])


def test_watch_of_a_job_that_fails_ends_with_1(api: FakeApi) -> None:
    api.answers["GET", JOBS] = listing(raw_job(status={**RUNNING, "phase": "Failed", "current": None}))
    assert holdfast("watch", "job").exit_code == ExitCode.FAILED


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "trouble",
    [
        failure(503, "ServiceUnavailable", "etcd"),
        failure(410, "Expired", "too old resource version"),
        [{"type": "ERROR", "object": failure(410, "Expired", "too old resource version")}],
    ],
)
def test_watch_reads_the_list_again_after_a_moment_without_answer(api: FakeApi, trouble: Any) -> None:
    lists = iter([listing(raw_job()), listing(raw_job(status={**RUNNING, **OVER}))])
    api.answers["GET", JOBS] = lambda _: next(lists)
    api.watches[JOBS] = [trouble]
    result = holdfast("watch", "job", "--every", "0.2")
    assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("impatient")
def test_watch_says_that_it_may_not_watch(api: FakeApi) -> None:
    api.watches[JOBS] = [failure(403, "Forbidden", 'User "me" cannot watch resource "trainingjobs"')] * 9
    result = holdfast("watch", "job", "--every", "0.2")
    assert result.exit_code == ExitCode.FORBIDDEN
    assert "holdfast-view" in result.output


@pytest.mark.usefixtures("impatient")
def test_watch_says_that_the_job_was_deleted(api: FakeApi) -> None:
    api.watches[JOBS] = [[modified("DELETED")]]
    result = holdfast("watch", "job", "--every", "0.2")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "was deleted" in result.output


def test_watch_says_that_there_is_no_such_job(api: FakeApi) -> None:
    result = holdfast("watch", "other", "--once")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "watch -A" in result.output


SILENT = "No operator has renewed its Lease since 20"


@pytest.mark.parametrize(
    "command", [("describe", "job"), ("watch", "job", "--once"), ("watch", "--once"), ("watch", "job")]
)
def test_views_say_that_no_operator_is_at_work(api: FakeApi, command: tuple[str, ...]) -> None:
    """Breaks if a job is called Running for minutes by an operator that is dead."""
    api.answers["GET", JOBS] = listing(raw_job(status={**RUNNING, **OVER}))
    for leases, said in (
        (listing(lease(timedelta(seconds=9))), False),
        (listing(lease(timedelta(seconds=90)), lease(timedelta(seconds=70), "other")), True),
        (failure(403, "Forbidden", 'User "me" cannot list resource "leases"'), False),
    ):
        api.answers["GET", operators.PATH] = leases
        result = holdfast(*command)
        assert (result.exit_code, SILENT in " ".join(result.output.split())) == (0, said), result.output


def lease(age: timedelta, namespace: str = "holdfast-system") -> dict[str, Any]:
    """A Lease that was renewed so long ago."""
    renewed = (datetime.now(UTC) - age).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {
        "metadata": {"name": "holdfast", "namespace": namespace, "uid": namespace},
        "spec": {"renewTime": renewed, "holderIdentity": "holdfast-1"},
    }


def test_describe(api: FakeApi) -> None:
    result = holdfast("describe", "job")
    assert result.exit_code == 0, result.output
    assert "message of Mine" in result.output


def test_why_looks_at_nodes(api: FakeApi) -> None:
    """Breaks if nodes, of which the policy has to know, are not asked for."""
    meta = {"name": "n", "uid": "u-n", "labels": {"holdfast.dev/tier": "spot"}, "creationTimestamp": BORN}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BORN}
    api.answers["GET", "/api/v1/nodes"] = listing({"metadata": meta, "spec": {}, "status": {"conditions": [ready]}})
    api.answers["GET", ALL_PODS] = failure(403, "Forbidden", 'User "me" cannot list resource "pods"')
    result = holdfast("why", "job")
    assert result.exit_code == 0, result.output
    assert "WHAT THE POLICY SAYS NOW" in result.output
    assert "not read" not in result.output
    assert "what others hold is not known" in result.output
    found = json.loads(holdfast("why", "job", "-o", "json").output)
    assert found["nodesLookedAt"] == 1
    assert found["tiers"][0]["readyNodeSeconds"] > 0


# Breaks if the command calls a node ready that is full of another job's pod, which the operator knows.
def test_why_sees_what_other_jobs_hold(api: FakeApi) -> None:
    meta = {"name": "n", "uid": "u-n", "labels": {"holdfast.dev/tier": "spot"}, "creationTimestamp": BORN}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BORN}
    api.answers["GET", "/api/v1/nodes"] = listing({"metadata": meta, "spec": {}, "status": {"conditions": [ready]}})
    other = raw_pod("other-1-0", "p-other", job="other", job_uid="u-other", node="n")
    api.answers["GET", ALL_PODS] = listing(other)
    found = json.loads(holdfast("why", "job", "-o", "json").output)
    assert found["tiers"][0]["readyNodeSeconds"] is None
    assert "what others hold is not known" not in holdfast("why", "job").output
    other["status"]["phase"] = "Succeeded"
    other["status"]["containerStatuses"] = [{"name": "trainer", "state": {"terminated": {"exitCode": 0}}}]
    assert json.loads(holdfast("why", "job", "-o", "json").output)["tiers"][0]["readyNodeSeconds"] > 0


def test_why_goes_on_where_nodes_may_not_be_listed(api: FakeApi) -> None:
    api.answers["GET", "/api/v1/nodes"] = failure(403, "Forbidden", 'User "me" cannot list resource "nodes"')
    result = holdfast("why", "job")
    assert result.exit_code == 0, result.output
    assert "nodes were not read" in result.output
    assert json.loads(holdfast("why", "job", "-o", "json").output)["nodesLookedAt"] is None


def test_why_says_that_the_cluster_did_not_answer_for_nodes(api: FakeApi) -> None:
    """Breaks if every refusal counts as "not allowed": then a policy is asked that has not seen what it could."""
    api.answers["GET", "/api/v1/nodes"] = failure(500, "InternalError", "etcd")
    assert holdfast("why", "job").exit_code == ExitCode.FAILED


def test_why_with_a_profile_that_is_there_and_one_that_is_not(api: FakeApi) -> None:
    api.answers["GET", "/api/v1/nodes"] = listing()
    api.answers["GET", JOB] = raw_job(capacity={"profile": "grid"})
    assert "capacity profile grid does not exist" in holdfast("why", "job").output
    tiers = [{"name": "of-the-profile", "kind": "CPU"}]
    profile = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "CapacityProfile", "metadata": {"name": "grid"}}
    api.answers["GET", PROFILES + "/grid"] = {**profile, "spec": {"tiers": tiers}}
    assert "of-the-profile" in holdfast("why", "job").output


def test_checkpoint_asks_by_annotation_and_waits(api: FakeApi) -> None:
    def patched(body: dict[str, Any] | None) -> dict[str, Any]:
        assert body is not None
        value = body["metadata"]["annotations"]["holdfast.dev/checkpoint-requested"]
        newer = {**RUNNING["checkpoint"], "step": 251, "committedAt": "2026-11-21T09:10:00Z"}
        api.answers["GET", JOB] = raw_job(status={**RUNNING, "requests": {"checkpoint": value}, "checkpoint": newer})
        return raw_job()

    api.answers["PATCH", JOB] = patched
    result = holdfast("checkpoint", "job")
    assert result.exit_code == 0, result.output
    assert "saved step 251" in result.output


def test_a_request_that_the_operator_does_not_answer_ends_with_a_message(api: FakeApi) -> None:
    api.answers["PATCH", JOB] = raw_job()
    result = holdfast("checkpoint", "job", "--timeout", "1")
    assert result.exit_code == ExitCode.FAILED
    assert "no outcome within 1 s" in result.output


def test_no_wait_asks_and_ends(api: FakeApi) -> None:
    api.answers["PATCH", JOB] = raw_job()
    result = holdfast("move", "job", "--tier", "cpu", "--no-wait")
    assert result.exit_code == 0, result.output
    (sent,) = [body for method, _, body in api.requests if method == "PATCH"]
    request_id, tier = sent["metadata"]["annotations"]["holdfast.dev/move-requested"].split()
    assert (tier, request_id[:2]) == ("cpu", "20")


def test_move_to_a_tier_that_the_job_has_not_asks_for_nothing(api: FakeApi) -> None:
    result = holdfast("move", "job", "--tier", "moon")
    assert result.exit_code == ExitCode.FAILED
    assert "it has spot, dedicated, cpu" in result.output
    assert not [method for method, _, _ in api.requests if method == "PATCH"]


def phase(name: str, value: str) -> dict[str, Any]:
    """A job of this name in a phase."""
    raw = raw_job(status={**RUNNING, "phase": value})
    return {**raw, "metadata": {**raw["metadata"], "name": name, "uid": name}}


# Breaks if --phase shows a job of another phase, or if it counts for people and not for programs.
def test_watch_shows_jobs_of_the_chosen_phases_alone(api: FakeApi) -> None:
    api.answers["GET", JOBS] = listing(phase("a", "Running"), phase("b", "Failed"), phase("c", "Suspended"))
    shown = holdfast("watch", "--once", "--phase", "Failed", "--phase", "Suspended").output
    assert [line.split()[0] for line in shown.splitlines()[2:] if line] == ["b", "c"]
    assert holdfast("watch", "-o", "name", "--phase", "Running").output.split() == ["trainingjob.holdfast.dev/a"]
    assert "no Completed training jobs in namespace demo" in holdfast("watch", "--once", "--phase", "Completed").output
    assert holdfast("list", "--phase", "Failed", "--phase", "Suspended").output == shown
    assert holdfast("watch", "job", "--phase", "Running").exit_code == ExitCode.USAGE


# Breaks if a suspension is reported that the operator has not carried out, or sets anything but spec.suspend.
def test_suspend_and_resume_wait_for_the_operator(api: FakeApi) -> None:
    def patched(body: dict[str, Any] | None) -> dict[str, Any]:
        assert body == {"spec": {"suspend": True}}
        old = raw_job(suspend=True)
        old["metadata"]["generation"] = 2
        new = raw_job(status={**RUNNING, "phase": "Suspended", "current": None, "observedGeneration": 2}, suspend=True)
        looks = iter([{**old, "status": {**old["status"], "phase": "Suspended", "observedGeneration": 1}}])
        api.answers["GET", JOB] = lambda _: next(looks, new)
        return old

    api.answers["PATCH", JOB] = patched
    result = holdfast("suspend", "job")
    assert result.exit_code == 0, result.output
    assert "job is suspended; its newest checkpoint is step 240" in result.output
    assert [path for method, path, _ in api.requests if method == "GET"] == [JOB] * 3
    assert "is suspended already" in holdfast("suspend", "job").output

    trains = raw_job(status={**RUNNING, "observedGeneration": 3})
    api.answers["PATCH", JOB] = lambda _: api.answers.update({("GET", JOB): trains}) or raw_job()
    assert "attempt 3 runs on tier dedicated, node dedicated-1" in holdfast("resume", "job").output
    assert "is not suspended" in holdfast("resume", "job").output


PODS = "/api/v1/namespaces/demo/pods"


# Breaks if a job is deleted that nobody was asked about, or another one of the same name; or the checkpoints are not
# named.
def test_cancel_deletes_this_very_job_once_it_is_confirmed(api: FakeApi) -> None:
    refused = holdfast("cancel", "job")
    assert refused.exit_code == ExitCode.FAILED
    assert "no terminal to ask on" in refused.output
    assert not [method for method, _, _ in api.requests if method == "DELETE"]

    def gone(body: dict[str, Any] | None) -> dict[str, Any]:
        assert body is not None
        assert body["preconditions"] == {"uid": UID}
        del api.answers["GET", JOB]
        return {"kind": "TrainingJob"}

    api.answers |= {("DELETE", JOB): gone, ("GET", PODS): listing()}
    done = holdfast("cancel", "job", "--yes")
    assert done.exit_code == 0, done.output
    assert "Its checkpoints stay in s3://runs/demo/job, the newest is step 240" in done.output
    assert "job and its pods are gone" in done.output


# Breaks if a job that was created again meanwhile is deleted, or the refusal is shown as it comes.
def test_cancel_leaves_a_job_that_was_created_again(api: FakeApi) -> None:
    api.answers["DELETE", JOB] = failure(409, "Conflict", "the UID in the precondition does not match")
    result = holdfast("cancel", "job", "--yes")
    assert result.exit_code == ExitCode.FAILED
    assert "created again" in result.output


def test_checkpoint_of_a_job_that_waits_is_refused_at_once(api: FakeApi) -> None:
    api.answers["GET", JOB] = raw_job(status={**RUNNING, "phase": "Acquiring"})
    result = holdfast("checkpoint", "job")
    assert result.exit_code == ExitCode.FAILED
    assert "only a running job can save" in result.output


@pytest.mark.parametrize(
    ("answer", "code", "wanted"),
    [
        (failure(403, "Forbidden", 'User "me" cannot get trainingjobs'), ExitCode.FORBIDDEN, "holdfast-view"),
        (failure(401, "Unauthorized", "Unauthorized"), ExitCode.FORBIDDEN, "does not know this user"),
        (failure(404, "NotFound", 'trainingjobs "job" not found'), ExitCode.NOT_FOUND, "watch -A"),
        (
            failure(404, "NotFound", "the server could not find the requested resource"),
            ExitCode.NOT_FOUND,
            "Holdfast is not installed",
        ),
    ],
)
def test_errors_say_what_to_do(api: FakeApi, answer: dict[str, Any], code: ExitCode, wanted: str) -> None:
    api.answers["GET", JOB] = answer
    for command in ("describe", "why", "checkpoint", "watch"):
        result = holdfast(command, "job")
        assert (result.exit_code, wanted in result.output) == (code, True), result.output
        assert "Traceback" not in result.output


def test_no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = holdfast("watch")
    assert result.exit_code == ExitCode.NO_ANSWER
    assert "holdfast local up" in result.output


def test_no_answer(tmp_path: Path) -> None:
    with fake_api() as gone:
        config = gone.kubeconfig(tmp_path / "config")
    result = holdfast("watch", "--kubeconfig", str(config))
    assert result.exit_code == ExitCode.NO_ANSWER
    assert "no answer from the cluster" in result.output


def test_version_works_without_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    result = holdfast("version")
    assert result.exit_code == 0
    assert "holdfast.dev/v1alpha1" in result.output


def test_a_job_and_all_namespaces_is_a_wrong_command_line(api: FakeApi) -> None:
    assert holdfast("watch", "job", "-A").exit_code == 2


@pytest.mark.parametrize("command", ["watch", "describe", "why", "checkpoint", "move", "demo", "version", "check"])
def test_every_command_has_help(command: str) -> None:
    result = holdfast(command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.output


class Context:
    """What a completion sees of the command line."""

    def __init__(self, *args: str, **params: Any) -> None:
        self.args, self.params = list(args), params


def test_completion_comes_from_the_cluster(api: FakeApi) -> None:
    api.answers["GET", "/api/v1/namespaces"] = listing({"metadata": {"name": "demo"}}, {"metadata": {"name": "other"}})
    context: Any = Context(job="job")
    assert completion.jobs(context, "j") == ["job"]
    assert completion.jobs(context, "x") == []
    assert completion.tiers(context, "") == ["spot", "dedicated", "cpu"]
    assert completion.namespaces(context, "o") == ["other"]


# Breaks if the value of --tier is completed only after the line has become complete without it, which it never does.
def test_completion_of_a_line_that_cannot_be_parsed_yet(api: FakeApi, tmp_path: Path) -> None:
    config = str(api.kubeconfig(tmp_path / "other", "elsewhere"))
    context: Any = Context("--kubeconfig", config, "job", "-n", "demo", "--tier")
    assert completion.tiers(context, "d") == ["dedicated"]


def test_completion_without_a_cluster_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    context: Any = Context()
    assert completion.jobs(context, "") == []


def test_the_namespace_is_that_of_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    named, bare = FakeApi().kubeconfig(tmp_path / "a", "vision"), FakeApi().kubeconfig(tmp_path / "b", None)
    assert Target(named).resolved_namespace() == "vision"
    assert Target(bare).resolved_namespace() == "default"
    assert Target(named, "chosen").resolved_namespace() == "chosen"
    # kubectl merges files: the first current-context counts, wherever its context is written.
    first = tmp_path / "c"
    first.write_text("current-context: fake\n")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{named}")
    assert Target().resolved_namespace() == "vision"
