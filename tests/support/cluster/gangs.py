"""Trainings on several nodes for end-to-end tests: a program whose pace and faults a test sets, and its pods."""

from pathlib import Path
from typing import Any

from tests.support.cluster.local_cluster import pod_log
from tests.support.cluster.training_jobs import Job, Raw, submit

from holdfast_local.cluster import Cluster

STEPS = 1000
TOTAL = STEPS * (STEPS + 1) // 2

# All ranks add up a number in each step, so no step can be taken unless all of them take it. Files in the folder
# CONTROL steer it: it is slow while `slow` is there, and the rank and attempt of `hog-RANK-ATTEMPT` take 3 GiB.
PROGRAM = """
import os, pathlib, time, torch, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["HOLDFAST_ATTEMPT"]
control = pathlib.Path(os.environ["CONTROL"])
counter, hog = Counter(), []
with Run(counter=counter) as run:
    print(f"rank {rank} of {dist.get_world_size()} begins attempt {attempt} at {run.step} \\n", end="", flush=True)
    exec(os.environ["ASIDE"])
    for step in run.steps():
        one = torch.ones(1)
        dist.all_reduce(one)
        counter.add(step)
        run.report(loss=1 / (step + 1))
        if (control / "slow").exists():
            time.sleep(0.1)
        if (control / f"hog-{rank}-{attempt}").exists():
            hog.append(b"x" * (3 << 30))
print(f"rank {rank} ended at {run.step}, total {counter.total} \\n", end="", flush=True)
dist.destroy_process_group()
"""
COMMAND = ["torchrun", "--no-python", "python", "-c", PROGRAM]


class Gang(Job):
    """A job on several nodes; its program is slow until `hurry`."""

    control: Path

    def hurry(self) -> None:
        """Let the program take its steps without pauses from now on."""
        (self.control / "slow").unlink()

    def hog(self, rank: int, attempt: int) -> None:
        """Let this rank of this attempt take more memory than its limit."""
        (self.control / f"hog-{rank}-{attempt}").touch()

    def by_name(self) -> dict[str, Raw]:
        """Its pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.pods()}

    def node_of(self, pod: str) -> str:
        """The node of a pod."""
        return str(self.by_name()[pod]["spec"]["nodeName"])

    def uid_of(self, pod: str) -> str:
        """The UID of a pod."""
        return str(self.by_name()[pod]["metadata"]["uid"])

    def alive(self) -> list[str]:
        """The names of the pods that have not ended and are not about to."""
        return sorted(
            name
            for name, pod in self.by_name().items()
            if pod["status"]["phase"] in ("Pending", "Running") and not pod["metadata"].get("deletionTimestamp")
        )

    def printed(self, pod: str) -> str:
        """What the programs of a pod printed, of all attempts."""
        return pod_log(self.cluster, pod, self.namespace)

    def wait_attempt(self, number: int, timeout: float = 120) -> Raw:
        """Wait until this attempt, or a later one, has taken its first step."""
        return self.wait(
            f"the first step of attempt {number}",
            lambda s: (now := s.get("current") or {}).get("number", 0) >= number and now.get("firstStep"),
            timeout,
        )

    def wait_completed(self, timeout: float = 150) -> Raw:
        """Wait for the job's end; it must be complete."""
        status = self.wait_phase("Completed", "Failed", timeout=timeout)
        history = [(one.get("rank"), one["kind"], one["reason"], one.get("message")) for one in status["history"]]
        assert status["phase"] == "Completed", history
        return status


def train(
    cluster: Cluster, namespace: str, tier: Raw, control: Path, nodes: int, *, aside: str = "", **spec: Any
) -> Gang:
    """A job on so many nodes. `aside` is Python that each rank runs at the start of its Run."""
    (control / "slow").touch()
    env = {"CONTROL": str(control), "ASIDE": aside}
    trainer = {
        "nodes": nodes,
        "acceleratorsPerNode": 1,
        "resources": {"cpu": "500m", "memory": "2Gi"},
        "env": [{"name": name, "value": value} for name, value in env.items()],
        **spec.pop("trainer", {}),
    }
    job = submit(cluster, namespace, [tier], COMMAND, trainer=trainer, goal={"steps": STEPS}, **spec)
    found = Gang(cluster, namespace, job.name, job.manifest)
    found.control = control
    return found
