"""The variables of a pod that say where its progress comes from, and whether its ranks compare themselves."""

import json

from tests.support.decisions.snapshots import CONFIG, attempt, job, tier

from holdfast.core.pod_manifest import build_pod
from holdfast_train.environment import Environment

VARIABLE = "HOLDFAST_PROGRESS_PATTERNS"


def env(**changes):
    pod = build_pod(job(**changes), attempt(3, tier=tier()), CONFIG, 7200.0)
    return {var["name"]: var.get("value") for var in pod["spec"]["containers"][0]["env"]}


# Breaks if Kubernetes changes a pattern on its way to the launcher: it makes $( of $$(.
def test_patterns_of_progress_reach_the_launcher_as_they_are():
    assert VARIABLE not in env()
    given = env(progress={"patterns": ["tqdm", "$(HOME) {step}"]})[VARIABLE]
    assert given.count("$$(") == given.count("$(") == 1
    assert json.loads(given.replace("$$(", "$(")) == ["tqdm", "$(HOME) {step}"]


# Breaks if the program cannot read the window, or compares ranks although the job does not want it.
def test_ranks_compare_themselves_unless_the_job_says_no():
    assert env()["HOLDFAST_SLOW_WINDOW"] == "300"
    given = env(failure={"slowRanks": {"action": "Tell", "window": "90s"}})["HOLDFAST_SLOW_WINDOW"]
    read = Environment.read({"HOLDFAST_JOB": "job", "HOLDFAST_JOB_UID": "uid", "HOLDFAST_SLOW_WINDOW": given})
    assert read is not None
    assert read.slow_window == 90
    assert "HOLDFAST_SLOW_WINDOW" not in env(failure={"slowRanks": {"action": "Ignore"}})
