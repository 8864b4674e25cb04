"""The variables that a program gets in its pod, as a kubelet puts their values in."""

from tests.support.cluster.training_jobs import Pool, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster

SHOW = "import os; print('RUN', os.environ['RUN'], os.environ['WANDB_RUN_ID'], os.environ['WANDB_NAME'])"


# Breaks if a user's variable cannot name the job, or an attempt has another run of the tracker; or if a program without
# the library is not complete when it ends with 0 of its own accord.
def test_a_program_knows_its_job_and_its_run(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    trainer = {"env": [{"name": "RUN", "value": "$(HOLDFAST_JOB)/$(HOLDFAST_JOB_UID)"}], "tracking": {"wandb": True}}
    command = ["python", "-c", SHOW]
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], command, trainer={"command": command, **trainer})
    job.wait_phase("Completed")
    uid = job.get()["metadata"]["uid"]
    assert f"RUN job/{uid} {uid} job" in job.logs(1)
