"""The variables of a pod that say where its progress comes from."""

import json

from tests.support.decisions.snapshots import CONFIG, attempt, job, tier

from holdfast.core.pod_manifest import build_pod

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
