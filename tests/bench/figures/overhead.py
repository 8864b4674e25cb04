"""What holdfast_train adds to a training step: report and bookkeeping, in a process that really reports."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.bench import jobs
from tests.bench.context import Bench
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST
from tests.bench.trainers import token_of
from tests.support.operator.operator_process import OperatorProcess
from tests.support.trainer.pod_settings import pod_variables

from holdfast.api import names
from holdfast_protocol.settings import Every

ROOT = Path(__file__).parents[3]


async def measure(bench: Bench) -> list[Measured]:
    """One pod; its trainer is a process here, with the pod's token and a folder as storage."""
    group = "overhead"
    await bench.nodes(group, 1)
    async with bench.operator() as operator, jobs.namespace(bench.api, group) as where:
        bench.audit.start()
        await jobs.create(bench.api, HOLDFAST, where, group, 1)
        await jobs.all_known_running(bench.audit, where, 1)
        (pod,) = await jobs.all_running(bench.api, where, 1)
        ca = await bench.api.request("GET", f"/api/v1/namespaces/{where}/configmaps/{names.CA_CONFIG_MAP}")
        token = await token_of(bench.api, pod)
        with tempfile.TemporaryDirectory(prefix="hf-step-") as folder:
            files = {"token": token, "ca.crt": ca["data"][names.CA_KEY]}
            for name, text in files.items():
                (Path(folder) / name).write_text(text)
            said = await _run(_environment(pod, operator, Path(folder)), bench.size(200_000, 50_000))
    each, bare = said["eachMilliseconds"], said["bareMilliseconds"]
    note = f"{said['steps']} steps; a step takes {each:.4f} ms with it, {bare:.4f} ms without; p99 {said['p99']:.4f} ms"
    return [Measured("step", max(each - bare, 0.0), note=note)]


def _environment(pod: dict[str, object], operator: OperatorProcess, folder: Path) -> dict[str, str]:
    meta = pod["metadata"]
    assert isinstance(meta, dict)
    labels = meta["labels"]
    own = {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'images' / 'trainer'}",
        "HOLDFAST_NAMESPACE": meta["namespace"],
        "HOLDFAST_JOB": labels[names.LABEL_JOB],
        "HOLDFAST_JOB_UID": labels[names.LABEL_JOB_UID],
        "HOLDFAST_ATTEMPT": labels[names.LABEL_ATTEMPT],
        "HOLDFAST_POD_UID": meta["uid"],
        "HOLDFAST_POD_NAME": meta["name"],
        "checkpoint_uri": f"file://{folder}/checkpoints",
        "every": Every(seconds=86400),
        "operator_url": operator.progress_url,
        "token_file": str(folder / "token"),
        "ca_file": str(folder / "ca.crt"),
    }
    return pod_variables(os.environ, **own)


async def _run(environment: dict[str, str], steps: int) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.step_overhead", str(steps), env=environment, cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 300)
    if process.returncode != 0:
        raise RuntimeError(f"the trainer ended with {process.returncode}: {err.decode(errors='replace')[-2000:]}")
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found
