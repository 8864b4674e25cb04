"""`holdfast run` as a person types it: from a folder with a program to a training."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import wheels
from tests.support.cluster.local_cluster import apply, get
from tests.support.cluster.training_jobs import Job, Pool, Raw, s3_secret

from holdfast_local.cluster import Cluster

pytestmark = [pytest.mark.usefixtures("operator")]
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PROGRAM = """
import pathlib, pickle, sys, time
from parts.words import VERSION

if pathlib.Path("requirements.txt").exists():
    import numpy, greet
    print(greet.words(), "beside numpy", numpy.__version__, flush=True)

STEPS, PACE = int(sys.argv[1]), float(sys.argv[2])
saves = sorted(pathlib.Path("outputs").glob("*.pkl"))
step = pickle.loads(saves[-1].read_bytes())["step"] if saves else 0
print(f"version {VERSION}, begins after step {step}", flush=True)
while step < STEPS:
    step += 1
    time.sleep(PACE)
    print(f"step {step} loss {1 / step}", flush=True)
    if step % 10 == 0 or step == STEPS:
        pathlib.Path("outputs").mkdir(exist_ok=True)
        pathlib.Path(f"outputs/{step:06}.pkl").write_bytes(pickle.dumps({"step": step}))
"""
PROGRESS = ("--progress", "step {step} loss {loss}", "--folder", "outputs")


class Place:
    """A folder with a program, and a profile of the test's own pool. `namespace` has the keys of the storage."""

    def __init__(self, cluster: Cluster, namespace: str, pool: Pool, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.profile = f"of-{namespace}"
        self.index = folder.parent / "index"  # of Python packages
        s3 = {"bucket": cluster.s3.bucket, "prefix": "runs", "endpoint": cluster.s3.endpoint}
        s3 |= {"region": cluster.s3.region, "credentialsSecret": "s3"}
        defaults = {"image": "holdfast.dev/plain:local", "storage": {"s3": s3}}
        profile: Raw = {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "CapacityProfile",
            "metadata": {"name": self.profile},
            "spec": {"defaults": defaults, "tiers": [pool.tier("spot", pricePerNodeHour="1.2"), pool.tier("cpu")]},
        }
        apply(cluster, s3_secret(cluster), namespace=namespace)
        apply(cluster, profile)
        (folder / "parts").mkdir(parents=True)
        (folder / "train.py").write_text(PROGRAM)
        (folder / "holdfast.toml").write_text(f'profile = "{self.profile}"\ngpus = 0\n')
        (folder / ".env").write_text("TOKEN=secret\n")
        self.write("v1")

    def write(self, version: str) -> None:
        """Change the program."""
        (self.folder / "parts" / "words.py").write_text(f'VERSION = "{version}"\n')

    def greet(self, version: str, text: str) -> None:
        """Put a package into the index that is in no image."""
        files = {"greet/__init__.py": text, "greet/parts.py": f"VERSION = '{version}'\n"}
        wheels.make_wheel(self.index, "greet", version, files)

    def run(self, *arguments: str, code: int = 0, tool: str = "run") -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.admin_kubeconfig), "HOME": str(self.folder.parent)}
        environment |= wheels.variables(self.index, self.folder.parent)
        done = subprocess.run(
            [HOLDFAST, tool, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def job(self, name: str) -> Job:
        found = get(self.cluster, f"trainingjob/{name}", self.namespace)
        return Job(self.cluster, self.namespace, name, found)


@pytest.fixture
def place(cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path) -> Place:
    return Place(cluster, namespace, pool, tmp_path / "my project ü")


# Breaks if a folder and one command are not enough for a training, or if an attempt runs other code than was sent.
@pytest.mark.thorough
def test_a_folder_trains_and_goes_on_with_changed_code(place: Place, tmp_path: Path) -> None:
    run = ("-n", place.namespace, "--name", "first", "--detach", *PROGRESS)
    said = place.run(*run, "--", "python3", "train.py", "2000", "0.5").stderr
    assert ".env" in said
    assert "spot 1.20/h" in said
    job = place.job("first")
    job.wait_checkpoint(10)
    first = job.manifest["spec"]["trainer"]["code"]["sha256"]

    place.write("v2")
    said = place.run(*run, "--", "python3", "train.py", "200", "0.01", code=2).stderr
    assert "a job first exists" in said
    place.run(*run, "--again", "continue", "--", "python3", "train.py", "200", "0.01")
    assert job.wait_phase("Completed", "Failed", timeout=90)["phase"] == "Completed"

    second = place.job("first").manifest["spec"]["trainer"]["code"]["sha256"]
    assert second != first
    last = job.status()["history"][-1]["number"]
    assert "version v1, begins after step 0" in job.logs(1)
    assert "version v2, begins after step " in job.logs(last)
    assert "begins after step 0" not in job.logs(last)
    assert f"CodeChanged: the folder of the program (trainer.code) is {second[:12]}" in job.logs(last)
    shown = place.run("show", "first", "-n", place.namespace, "-o", "json", tool="checkpoints").stdout
    assert json.loads(shown)["program"]["code"] == second

    back = tmp_path / "back"
    place.run("show", "first", "-n", place.namespace, "--code", str(back), tool="checkpoints")
    assert (back / "parts" / "words.py").read_text() == 'VERSION = "v2"\n'
    assert sorted(path.name for path in back.iterdir()) == ["holdfast.toml", "parts", "train.py"]


# Breaks if a dry run sends or makes anything, or if the job that it prints is not the one that is made.
def test_a_job_for_git(place: Place) -> None:
    line = ("-n", place.namespace, "--name", "later", "--", "python3", "train.py", "5", "0")
    printed = place.run("--dry-run", "-o", "yaml", *line).stdout
    manifest: dict[str, Any] = yaml.safe_load(printed)
    assert place.run("--only-send", "-o", "yaml", *line).stdout == printed
    assert "was sent already" in place.run("--only-send", *line).stderr
    place.cluster.kubectl("create", "-f", "-", stdin=printed)
    job = place.job("later")
    assert job.manifest["spec"]["trainer"]["code"] == manifest["spec"]["trainer"]["code"]
    assert job.wait_phase("Completed", "Failed", timeout=90)["phase"] == "Completed"
    assert "version v1, begins after step 0" in job.logs(1)


# Breaks if a program does not find the packages that its folder names, or replaces those that the image provides.
def test_packages_of_the_folder(place: Place) -> None:
    text = "import greet.parts\ndef words():\n    return 'hello from ' + greet.parts.VERSION\n"
    place.greet("1.0", text)
    (place.folder / "requirements.txt").write_text("greet\nnumpy>=1\n")
    run = ("-n", place.namespace, "--name", "greets", "--image", "holdfast.dev/trainer:local", "--detach")
    run += ("--provided", "numpy", *PROGRESS)
    said = place.run(*run, "--", "python3", "train.py", "10", "0").stderr
    assert "1 package of requirements.txt" in said
    job = place.job("greets")
    status = job.wait_phase("Completed", "Failed", timeout=90)
    assert status["phase"] == "Completed", status
    assert f"hello from 1.0 beside numpy {version('numpy')}" in job.logs(1)

    place.greet("2.0", text)
    again = (*run, "--again", "new", "--upgrade", "--", "python3", "train.py", "10", "0")
    assert "packages" in place.run(*again).stderr
    job = place.job("greets")
    status = job.wait_phase("Completed", "Failed", timeout=90)
    assert status["phase"] == "Completed", status
    assert f"hello from 2.0 beside numpy {version('numpy')}" in job.logs(1)

    (place.folder / "requirements.txt").write_text("greet\nnumpy<1\n")
    place.run(*run, "--again", "new", "--", "python3", "train.py", "10", "0")
    status = place.job("greets").wait_phase("Failed", timeout=90)
    assert status["reason"] == "DependenciesDoNotFit"
    words = f"requirements.txt needs numpy<1, which is taken from the image, and the image has {version('numpy')}"
    assert words in status["history"][0]["message"]


# Breaks if a pod trains with code that is not what its job names.
def test_code_that_is_not_there(place: Place) -> None:
    line = ("-n", place.namespace, "--name", "lost", "-o", "yaml", "--", "python3", "train.py", "5", "0")
    manifest = yaml.safe_load(place.run("--dry-run", *line).stdout)
    manifest["spec"]["trainer"]["code"]["sha256"] = "0" * 64
    apply(place.cluster, manifest)
    status = place.job("lost").wait_phase("Failed", timeout=90)
    assert status["reason"] == "CodeMissing"
