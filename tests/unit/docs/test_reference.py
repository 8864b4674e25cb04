"""Hand-written pages of the reference list exactly what there is."""

import re
from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import CONFIG, attempt, job, tier
from tests.unit.docs.pages import DOCS, ROOT, prose

import holdfast_train
from holdfast.api.data import Data
from holdfast.api.resumption import WarmStart
from holdfast.api.trainer import Code, Tracking
from holdfast.core.pod_manifest import build_pod
from holdfast_protocol import variables

FULL = {
    "storage": {"s3": {"bucket": "runs", "prefix": "p", "endpoint": "http://s3:9000", "credentialsSecret": "s3"}},
    "maxLostWork": "15m",
    "uploadRate": "300M",
    "keep": {"last": 3, "every": "24h", "best": {"count": 2, "metric": "loss", "mode": "Min"}},
}
# Set by the launcher for the ranks, not by the operator.
BY_LAUNCHER = {
    *(one.name for one in variables.TABLE if one.by == variables.LAUNCHER),
    *("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_BACKEND"),
}


# Breaks if a variable is added to the pod, renamed or dropped, and the page is not changed.
def test_the_page_of_the_environment_lists_every_variable() -> None:
    full = job(checkpoint=FULL, goal={"steps": 100}, failure={"spike": {}})
    config = replace(CONFIG, progress_url="https://holdfast:8443")
    pod = build_pod(full, attempt(3, tier=tier(), predecessor=2), config, 7200.0)
    warm = WarmStart(source="s3://runs/a", only=("model",))
    data = (Data(source="s3://datasets/a", to="/data"),)
    changes: dict[str, object] = {"warm_start": False, "tracking": Tracking(mlflow=True), "data": data}
    changes["code"] = Code(sha256="ab" * 32, dependencies="cd" * 32)
    own = {
        "trainer": full.spec.trainer.model_copy(update=changes),
        "checkpoint": full.spec.checkpoint.model_copy(update={"peers": True, "resume": warm}),
    }
    of_several = full.model_copy(update={"spec": full.spec.model_copy(update=own)})
    several = build_pod(of_several, attempt(3, tier=tier(), nodes=2), config, 7200.0, imports=("torch",))
    folder = {"storage": full.spec.checkpoint.storage, "folder": "/outputs", "pattern": "run-*"}
    as_it_is = build_pod(
        job(checkpoint=folder, progress={"patterns": ["tqdm"]}), attempt(3, tier=tier()), config, 7200.0
    )
    containers = [
        *as_it_is["spec"]["containers"],
        *pod["spec"]["initContainers"],
        *pod["spec"]["containers"],
        *several["spec"]["containers"],
    ]
    there = {variable["name"] for container in containers for variable in container["env"]}
    listed = set(re.findall(r"`((?:HOLDFAST|PET)_[A-Z0-9_]+)`", prose(DOCS / "reference" / "environment.md")))
    assert listed == there | BY_LAUNCHER


# Breaks if a public name is added or renamed and the page does not know it.
def test_the_page_of_run_names_what_a_program_may_import() -> None:
    page = prose(DOCS / "reference" / "run.md")
    (names,) = re.findall(r"`from holdfast_train import ([^`]+)`", page)
    for name in names.split(", "):
        assert name in holdfast_train.__all__
        assert f"`{name}" in page
    members = set(re.findall(r"^\| `run\.(\w+)", page, re.MULTILINE))
    public = {name for name in vars(holdfast_train.Run) if not name.startswith("_")} | {"step", "left", "resumed_from"}
    assert members == public


# Breaks if a test is renamed or removed, and a page still says that it proves something.
@pytest.mark.parametrize(
    "page",
    [
        "concepts/architecture.md",
        "reference/frameworks.md",
        "reference/faults-of-several-nodes.md",
        "reference/service.md",
    ],
)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(test_\w+|Test\w+)(?:\[[^`]*\])?`", prose(DOCS / page)))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^(?:async )?(?:def )?(test_\w+|Test\w+)\b", sources, re.MULTILINE))
    assert len(named) > 5
    assert sorted(named - there) == []
