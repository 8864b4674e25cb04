"""Trainings on several nodes that cost little CPU: rank 0 trains without torch, the others end when it does.

Their pods and launchers are real. So many of them fit on one machine.
"""

from pathlib import Path

from tests.support.cluster.local_cluster import pod_log
from tests.support.cluster.training_jobs import Job, Raw

from holdfast.api import names

PROGRAM = """
import os, pathlib, time
from holdfast_train import Run
from holdfast_train.examples.stub import Counter
from holdfast_train.pod.rank_verdict import write_rank_verdict

steps, done = int(os.environ["STEPS"]), pathlib.Path(os.environ["DONE"])
left = done.with_name(f"{done.name}-left-{os.environ['HOLDFAST_ATTEMPT']}")
pace = 0.001 if done.with_name("fast").exists() else 0.1  # a program keeps the pace that it began with
if os.environ["RANK"] == "0":
    del os.environ["WORLD_SIZE"], os.environ["HOLDFAST_NODES"]  # a Run of its own, without a process group
    counter = Counter()
    with Run(counter=counter) as run:
        print(f"begins at {run.step} ", flush=True)
        for step in run.steps():
            counter.add(step)
            print(f"step {step + 1} ", flush=True)
            time.sleep(pace)
    print(f"total {counter.total} ", flush=True)
    (done if run.step == steps else left).touch()
else:
    while not (done.exists() or left.exists()):
        time.sleep(0.2)
    result = "completed" if done.exists() else "saved"
    write_rank_verdict(os.environ["HOLDFAST_VERDICT_DIR"], int(os.environ["RANK"]), result)
"""
COMMAND = ("python", "-c", PROGRAM)


def environment(done: Path, steps: int) -> list[Raw]:
    """The environment of the program, which creates the file `done` at its end.

    It takes ten steps a second, or a thousand if it begins when a file `fast` is beside `done`.
    """
    return [{"name": "STEPS", "value": str(steps)}, {"name": "DONE", "value": str(done)}]


def printed_by_rank_0(job: Job) -> str:
    """What the newest pod of rank 0 printed; "" if it has not started."""
    own = [pod for pod in job.pods() if pod["metadata"]["labels"][names.LABEL_RANK] == "0"]
    if not own or own[-1]["status"]["phase"] == "Pending":
        return ""
    return pod_log(job.cluster, own[-1]["metadata"]["name"], job.namespace)
