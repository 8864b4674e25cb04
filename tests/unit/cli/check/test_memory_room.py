"""If a trainer's memory has room for the copy of its state that a save makes."""

import pytest
from tests.support.manifests.good_manifests import GOOD, changed

from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast_cli.check.findings import Report
from holdfast_cli.check.memory_room import State, check_memory, reported_shortage, stored_state

GIB = 1 << 30
GPU = {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu"}
CPU = {"name": "cpu", "kind": "CPU"}


def said(memory, gib, tiers=(GPU,), gpus=1, nodes=1):
    trainer = {
        "spec/trainer/nodes": nodes,
        "spec/trainer/resources/memory": memory,
        "spec/trainer/acceleratorsPerNode": gpus,
    }
    spec = TrainingJob.parse(changed(GOOD, {**trainer, "spec/capacity/tiers": list(tiers)})).spec
    report = Report("job")
    check_memory(spec.trainer, spec.capacity.tiers, State(int(gib * GIB), "given by --state"), report)
    (found,) = report.findings
    assert found.field == "spec.trainer.resources.memory"
    return f"{found.severity}: {found.message}"


def test_a_copy_that_fits():
    assert said("16Gi", 12) == (
        "ok: 16Gi has room for the copy of the state that a save makes (12.0Gi: given by --state)"
    )


def test_each_of_several_nodes_copies_its_share():
    assert said("128Gi", 400, nodes=4) == (
        "ok: 128Gi has room for the copy of the state that a save makes (100.0Gi: a node's share of 400.0Gi)"
    )


def test_a_copy_that_does_not_fit_beside_the_program():
    """Breaks if the first save of a job is killed for its memory, and no message came before."""
    assert said("12Gi", 12) == (
        "warning: 12Gi has no room for the copy of the state that a save makes (12.0Gi: given by --state); the trainer "
        "may be killed while it saves: set 13Gi or more"
    )


@pytest.mark.parametrize(("tiers", "gpus", "where"), [((GPU, CPU), 1, " on tier cpu"), ((GPU,), 0, "")])
def test_without_a_gpu_the_state_itself_is_in_the_same_memory(tiers, gpus, where):
    assert said("16Gi", 12, tiers, gpus) == (
        f"warning: 16Gi has no room for the state{where} and the copy of the state that a save makes (12.0Gi: given by "
        "--state); the trainer may be killed while it saves: set 25Gi or more"
    )
    assert said("26Gi", 12, tiers, gpus).startswith("ok")


def test_a_small_program_needs_no_spare_gigabyte():
    assert said("256Mi", 0.1).startswith("ok")
    assert said("256Mi", 0.245).startswith("warning")


def test_the_newest_checkpoint_says_how_large_the_state_is():
    saved = {"step": 900, "uri": "s3://b/p", "bytes": 3 * GIB, "committedAt": "2026-11-21T09:00:00Z"}
    found = stored_state(TrainingJobStatus.model_validate({"checkpoint": saved}))
    assert found == State(3 * GIB, "the newest checkpoint, of step 900")
    assert stored_state(TrainingJobStatus.model_validate({"checkpoint": {**saved, "bytes": 0}})) is None
    assert stored_state(TrainingJobStatus()) is None


def test_a_trainer_that_runs_reports_its_shortage():
    def of(state, memory="8Gi"):
        condition = {"type": "MemoryShort", "status": state, "reason": "x", "message": "a save copies the state"}
        conditions = [{**condition, "lastTransitionTime": "2026-11-21T09:00:00Z"}]
        job = TrainingJob.parse({**GOOD, "status": {"conditions": conditions}})
        new = changed(GOOD, {"spec/trainer/resources/memory": memory})
        return reported_shortage(job, TrainingJob.parse(new).spec.trainer)

    assert (of("True"), of("False")) == ("a save copies the state", None)
    assert (of("True", "7Gi"), of("True", "9Gi")) == ("a save copies the state", None), "more memory may be enough"
