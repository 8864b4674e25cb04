"""What goes wrong inside a job or its namespace: failures are counted, mistakes are named, refusals are waited out."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.cluster.local_cluster import apply, delete, get
from tests.support.cluster.training_jobs import (
    Job,
    Pool,
    Raw,
    job_manifest,
    kinds,
    s3_secret,
    storage_log,
    stub,
    submit,
)
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

QUICK = stub("--step-seconds", 0.01)
SHORT = {"steps": 30}
NOTHING_COUNTED = {"interruptions": 0, "infrastructure": 0, "failures": 0}
TWO_FAILURES = {**NOTHING_COUNTED, "failures": 2}


def test_out_of_memory_is_the_users_failure(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the memory limit's SIGKILL counts as an interruption (then it is free), or maxFailures is not kept."""
    leaking = stub("--step-seconds", 0.05, "--leak-memory", 100)
    small = {"resources": {"cpu": "100m", "memory": "300Mi"}, "command": leaking}
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], leaking, trainer=small, failure={"maxFailures": 1})
    failed = job.wait_phase("Failed")
    assert failed["reason"] == "TooManyFailures"
    assert [(entry["kind"], entry["reason"]) for entry in failed["history"]] == [("Failure", "OutOfMemory")] * 2
    assert "more memory than its limit" in failed["history"][0]["message"]
    assert counted(failed) == TWO_FAILURES
    assert "OutOfMemory" in condition(failed, "Failed")["message"]


@pytest.mark.thorough
def test_exception_is_counted_shown_and_tried_again_later_each_time(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the program's last lines are lost, a failure is tried again at once, or from the beginning."""
    failing = stub("--step-seconds", 0.01, "--fail-at", 25, "--fail-attempts", 2)
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], failing, goal=SHORT, failure={"maxFailures": 2})
    done = job.wait_phase("Completed", "Failed")
    assert done["phase"] == "Completed", done["reason"]
    *failures, last = done["history"]
    assert [(entry["kind"], entry["reason"]) for entry in failures] == [("Failure", "UserException")] * 2
    for entry in failures:
        assert "RuntimeError: the stub was told to fail at step 25" in entry["message"]
        assert "Traceback" in entry["message"], "what the program wrote"
    assert counted(done) == TWO_FAILURES
    assert last["resumedStep"] == 20
    first, second = job.delays()
    assert timedelta(seconds=0.2) < first <= timedelta(seconds=0.5) < second <= timedelta(seconds=1)


def test_program_that_fails_too_often_ends_the_job_with_its_own_words(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if people have to look for the reason in the log of a pod that may be gone."""
    command = ["sh", "-c", "echo loading; echo there is no file /data/train.bin >&2; exit 3"]
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], command, failure={"maxFailures": 0})
    failed = job.wait_phase("Failed")
    assert failed["attempt"] == 1
    assert failed["reason"] == "TooManyFailures"
    assert "exit code 3" in failed["history"][0]["message"]
    assert "there is no file /data/train.bin" in condition(failed, "Failed")["message"]


@pytest.mark.thorough
def test_what_the_user_has_decided_about_a_failure(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a rule sees the 1 of torchrun instead of the program's exit code, or an ignored failure counts."""
    code = (
        "import os, sys; first = os.environ['HOLDFAST_ATTEMPT'] == '1';"
        "print('data server is away' if first else 'bad data', file=sys.stderr); sys.exit(4 if first else 42)"
    )
    rules = [{"exitCodes": [42], "action": "Fail"}, {"message": "server is away", "action": "Ignore"}]
    command = ["torchrun", "--nproc-per-node=1", "--no-python", "python3", "-c", code]
    failure = {"maxFailures": 0, "rules": rules}
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], command, failure=failure)
    failed = job.wait_phase("Failed", timeout=120)
    ignored, last = failed["history"]
    assert (ignored["kind"], last["kind"], failed["reason"]) == ("Interruption", "Failure", last["reason"])
    assert ignored["message"].startswith("failure.rules[1]: ")
    assert condition(failed, "Failed")["message"].startswith(f"{last['reason']}: failure.rules[0]: ")
    assert counted(failed) == {**NOTHING_COUNTED, "interruptions": 1, "failures": 1}


def test_mistakes_are_named_in_seconds_and_burn_no_tier(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a job that can never work waits, tries other tiers, or counts as a failure of the program."""
    tiers = [calm_pool.tier("cpu"), {**calm_pool.tier("cpu"), "name": "other"}]
    wrong_keys = s3_secret(cluster, AWS_SECRET_ACCESS_KEY="wrong")
    apply(cluster, {**wrong_keys, "metadata": {"name": "wrong-keys"}}, namespace=namespace)

    def job(name: str, trainer: Raw | None = None, s3: Raw | None = None) -> Job:
        storage = {
            "bucket": cluster.s3.bucket,
            "prefix": f"{namespace}/{name}",
            "endpoint": cluster.s3.endpoint,
            "credentialsSecret": "s3",
            **(s3 or {}),
        }
        more = {"trainer": trainer or {}, "checkpoint": {"storage": {"s3": storage}}, "goal": SHORT}
        return submit(cluster, namespace, tiers, QUICK, name, **more)

    mistakes: list[tuple[Job, set[str], str]] = [
        (
            job("malformed-image", trainer={"image": "holdfast.dev/Trainer:local"}),
            {"InvalidImageName"},
            "holdfast.dev/Trainer:local",
        ),
        (job("wrong-keys", s3={"credentialsSecret": "wrong-keys"}), {"StorageDenied"}, "SignatureDoesNotMatch"),
        (job("no-bucket", s3={"bucket": "no-such-bucket"}), {"StorageNotFound"}, "no-such-bucket"),
        (job("no-command", trainer={"command": ["no-such-program"]}), {"CommandNotFound"}, "no-such-program"),
    ]
    for mistaken, reasons, word in mistakes:
        failed = mistaken.wait_phase("Failed", "Completed")
        assert failed["reason"] in reasons, mistaken.name
        assert word in condition(failed, "Failed")["message"], mistaken.name
        assert failed["attempt"] == 1, mistaken.name
        assert [(entry["kind"], entry["tier"]) for entry in failed["history"]] == [("Misconfigured", "cpu")]
        assert counted(failed) == NOTHING_COUNTED, mistaken.name


def test_an_image_that_is_refused_twice_ends_the_job(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a refusal that may pass ends a job, or a wrong name is tried without end."""
    tiers = [calm_pool.tier("cpu")]
    mistaken = submit(cluster, namespace, tiers, QUICK, trainer={"image": "holdfast.dev/unknown:1"}, goal=SHORT)
    failed = mistaken.wait_phase("Failed", "Completed")
    assert failed["reason"] in {"ErrImagePull", "ImagePullBackOff"}
    assert "holdfast.dev/unknown:1" in condition(failed, "Failed")["message"]
    assert [(entry["kind"], entry["tier"]) for entry in failed["history"]] == [
        ("Interruption", "cpu"),
        ("Misconfigured", "cpu"),
    ]


def test_a_secret_that_is_late_is_waited_for(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a job fails because its Secret is created a while after it, or does not say what it waits for."""
    storage = {"bucket": cluster.s3.bucket, "prefix": f"{namespace}/late", "endpoint": cluster.s3.endpoint}
    checkpoint = {"storage": {"s3": {**storage, "credentialsSecret": "late"}}}
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, checkpoint=checkpoint, goal=SHORT)
    waiting = job.wait("a second attempt", lambda s: s.get("attempt", 0) >= 2)
    assert condition(waiting, "StartBlocked")["reason"] == "CreateContainerConfigError"
    assert '"late"' in condition(waiting, "StartBlocked")["message"]
    apply(cluster, {**s3_secret(cluster), "metadata": {"name": "late"}}, namespace=namespace)
    done = job.wait_phase("Completed", "Failed")
    assert done["phase"] == "Completed"
    assert [item["status"] for item in done["conditions"] if item["type"] == "StartBlocked"] == ["False"]


def test_second_job_on_a_prefix_is_refused_and_the_first_goes_on(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if two jobs could write into one lineage, or a stranger could stop a training by taking its prefix."""
    first = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05), goal={"steps": 120})
    first.wait_step(1)
    second = submit(
        cluster, namespace, [calm_pool.tier("cpu")], QUICK, "second", checkpoint=first.manifest["spec"]["checkpoint"]
    )
    refused = second.wait_phase("Failed", "Completed")
    assert refused["reason"] == "StoragePrefixInUse"
    assert f"{namespace}/job" in condition(refused, "Failed")["message"]
    assert refused["attempt"] == 1
    done = first.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"]) == ("Completed", 1)
    assert "total 7260" in first.logs(1), "120 steps, each exactly once"
    pod = get(cluster, "pod/job-1-0", namespace)
    assert "deletionTimestamp" not in pod["metadata"], "it is kept for its log"


def test_limit_range_refuses_one_tier_after_the_other(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a refusal holds a job on one tier for ever, or its words are not shown."""
    limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}}
    apply(cluster, limit_range, namespace=namespace)
    tiers = [calm_pool.tier("cpu", acquireTimeout="1s"), {**calm_pool.tier("cpu"), "name": "other"}]
    job = submit(cluster, namespace, tiers, QUICK, goal=SHORT)
    waiting = job.wait(
        "a refusal on the next tier", lambda s: s.get("tier") == "other" and s.get("reason") == "PodRefused"
    )
    assert "maximum memory usage per Container is 1Gi" in waiting["decision"]["message"]
    assert waiting["history"][0]["kind"] == "Stopped"

    delete(cluster, "limitrange/small", namespace)

    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], counted(done)) == ("Completed", NOTHING_COUNTED)


@pytest.mark.thorough
def test_namespace_with_restricted_pod_security(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a program with a user of its own is refused, or one without is refused and the rule is not named."""
    level = "pod-security.kubernetes.io/enforce"
    cluster.kubectl("label", "--overwrite", "namespace", namespace, f"{level}=restricted")
    root = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, goal=SHORT)
    user = {"securityContext": {"runAsUser": 1000}}
    own = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, "own-user", goal=SHORT, trainer=user)
    waiting = root.wait("a refusal", lambda s: s.get("reason") == "PodRefused")
    assert 'violates PodSecurity "restricted' in waiting["decision"]["message"]
    done = own.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"]) == ("Completed", 1)

    cluster.kubectl("label", "--overwrite", "namespace", namespace, f"{level}=baseline")

    done = root.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"], counted(done)) == ("Completed", 1, NOTHING_COUNTED)


def test_missing_profile_is_waited_for(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a profile that comes after its jobs is not noticed, if the job does not say what it misses, or if an
    attempt ends because the profile is deleted.
    """
    manifest = job_manifest(cluster, namespace, "job", [], stub("--step-seconds", 0.05), goal={"steps": 120})
    manifest["spec"]["capacity"] = {"profile": namespace}
    apply(cluster, s3_secret(cluster), namespace=namespace)
    apply(cluster, manifest)
    job = Job(cluster, namespace, "job", manifest)
    waiting = job.wait("what it waits for", lambda s: namespace in ((s.get("decision") or {}).get("message") or ""))
    assert not waiting.get("attempt"), "no number is burnt"
    profile = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "CapacityProfile", "metadata": {"name": namespace}}
    try:
        apply(cluster, {**profile, "spec": {"tiers": [calm_pool.tier("cpu")]}})
        job.wait_step(5)
    finally:
        delete(cluster, f"capacityprofile/{namespace}")
    told = job.wait("what is gone", lambda s: any(one["type"] == "SettingsPending" for one in s["conditions"]))
    assert condition(told, "SettingsPending")["reason"] == "ProfileNotFound"
    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"]) == ("Completed", 1)


def test_program_that_ends_before_its_goal_is_done_and_its_pod_is_released(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the goal decides what done means, and not the program: it would be started again for ever.

    Or if our finalizer stays on a pod whose end is in status: it could never be deleted.
    """
    leaving = stub("--step-seconds", 0.01, "--stop-at", 5)
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], leaving, goal=SHORT)
    done = job.wait_phase("Completed", "Failed")
    assert done["phase"] == "Completed"
    assert done["attempt"] == 1
    pod = "pod/job-1-0"
    wait_for(lambda: not get(cluster, pod, namespace)["metadata"].get("finalizers"), 20, "the finalizer to go")
    log = storage_log(cluster, f"{namespace}/job")
    assert log[-1].kind == "complete"
    assert ("fence", 1) in kinds(log)


def counted(status: Raw) -> Raw:
    """The restarts; what is zero may not be written."""
    return {**NOTHING_COUNTED, **(status.get("restarts") or {})}


def condition(status: Raw, kind: str) -> Raw:
    """A condition that is true."""
    found: Raw = next(item for item in status["conditions"] if item["type"] == kind)
    assert found["status"] == "True"
    return found


# Breaks if a training that hangs is Progressing for ever, or begins from the start when it is started again.
def test_training_that_hangs_is_ended_and_goes_on_from_its_checkpoint(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    stop_once = (
        "import os, signal; from holdfast_train import Run; from holdfast_train.examples.stub import Counter\n"
        "with Run(counter=Counter()) as run:\n"
        "    for step in run.steps():\n"
        "        if step == 25 and os.environ['HOLDFAST_ATTEMPT'] == '1':\n"
        "            os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    command = ["python3", "-c", stop_once]
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], command, goal=SHORT, failure={"stallTimeout": "10s"})
    done = job.wait_phase("Completed", "Failed", timeout=120)
    first, last = done["history"]
    assert (done["phase"], first["kind"], first["reason"]) == ("Completed", "Failure", "Stalled")
    assert "no step for 1" in first["message"]
    assert "after step 25" in first["message"]
    assert "a rank was in <module> (<string>, line " in first["message"]
    command = [str(Path(sys.executable).with_name("holdfast")), "evidence", "job", "-n", namespace]
    command += ["--attempt", "1", "--kubeconfig", str(cluster.admin_kubeconfig)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90).stdout
    assert "no step for 1" in shown
    assert '  File "<string>", line ' in shown, "the stacks"
    assert last["resumedStep"] == 20


# Breaks if a training whose losses are not numbers goes on, or meets the batch that has spoiled it again.
@pytest.mark.thorough
def test_a_poisoned_batch_takes_the_training_back_and_is_passed_over(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    program = (
        "import time; from holdfast_train import ElasticSampler, Run\n"
        "sampler = ElasticSampler(4000, batch=4, seed=1)\n"
        "poisoned = {sample for step in (250, 251, 252) for sample in sampler.indices(step)}\n"
        "with Run(sampler=sampler) as run:\n"
        "    for step in run.steps():\n"
        "        run.report(loss=float('nan') if poisoned.intersection(sampler.indices(step)) else 1.0)\n"
        "        time.sleep(0.04)\n"
        "print('passed over', sampler.skipped)\n"
    )
    job = submit(
        cluster, namespace, [calm_pool.tier("cpu")], ["python3", "-c", program], goal={"steps": 400},
        checkpoint={"every": "50 steps"},
    )  # fmt: skip
    done = job.wait_phase("Completed", "Failed", timeout=120)
    assert len(done["history"]) == 2, done["history"]
    first, last = done["history"]
    assert (done["phase"], first["kind"], first["reason"]) == ("Completed", "Failure", "NonFinite")
    assert "3 in a row: step 251 (nan)" in first["message"]
    back = last["resumedStep"]
    assert 0 < back <= 150
    assert f"passed over {253 - back}" in job.logs(last["number"])
