"""`holdfast package` on a cluster: an ordinary job makes the package, also if its node is taken away meanwhile."""

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.cluster.training_jobs import Job, Pool, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster
from holdfast_model.package import load


@pytest.mark.thorough
def test_a_package_is_made_although_its_node_is_taken_away(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path
) -> None:
    """Breaks if the job lacks the program, its keys or its variables; if an interruption ends it, or leaves half a
    package."""
    program = REPOSITORY / "tests/support/cluster/packaged.py"
    env = [{"name": "PYTHONPATH", "value": str(program.parent)}, {"name": "OMP_NUM_THREADS", "value": "1"}]
    tiers = [pool.tier("spot"), pool.tier("cpu")]
    job = submit(cluster, namespace, tiers, ["python", str(program), "5"], trainer={"env": env}, goal={"steps": 5})
    job.wait_phase("Completed", timeout=120)

    begun, go = tmp_path / "begun", tmp_path / "go"
    asked = subprocess.Popen(
        [
            sys.executable, "-m", "holdfast_cli", "package", "job", "-n", namespace, "--problem", "packaged:problem",
            "--argument", str(begun), "--argument", str(go), "--variant", "safetensors", "--variant", "onnx",
            "--to", str(tmp_path / "model"),
        ],
        env={**os.environ, **cluster.environment()},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        making = Job(cluster, namespace, "job-package", {})
        wait_for(lambda: begun.exists() or asked.poll() is not None, 120, "the first attempt to begin")
        assert asked.poll() is None, asked.communicate()
        first = making.status()
        assert first["tier"] == "cpu", "tiers of kind CPU come first"
        cluster.reclaim(first["node"], timedelta(seconds=5))
        wait_for(lambda: begun.stat().st_size == 2, 120, "the second attempt to begin")
        assert making.status()["history"][0]["kind"] == "Interruption"
        go.touch()
        said, complained = asked.communicate(timeout=200)
    finally:
        asked.kill()
    assert asked.returncode == 0, said + complained
    assert "of 7 on spot" in complained, "what it does now is shown"
    assert re.search(r"^onnx +onnx/model.onnx .* accepted *$", said, re.MULTILINE), said
    assert "attempt 1 ended" in complained
    assert not making.exists(), "the job that made the package is deleted"
    with load(tmp_path / "model", "onnx") as model:
        assert model.outputs["logits"].shape == ("rows", 2)
