"""What the demo puts on its stage."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.api.objects import TrainingJob
from holdfast.runtime.settings import Settings
from holdfast_local.config import DEFAULT_IMAGES, DEFAULT_NODES
from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.stage import PATIENCE, example, job_manifest
from holdfast_local.demo.stories import GANG, ONE_NODE, PACKAGED, Story
from holdfast_local.state import S3Access

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
S3 = S3Access(endpoint="http://127.0.0.1:1", access_key="a", secret_key="s")


def test_a_deadline_becomes_one_day_from_now() -> None:
    job = TrainingJob.parse(job_manifest(example(ONE_NODE.example), S3, NOW))
    assert job.spec.capacity.policy == "Deadline"
    assert job.spec.capacity.deadline == NOW + timedelta(days=1)


# Breaks if the example, the script and the local cluster's default layout drift apart: the demo would hang.
@pytest.mark.parametrize("story", [ONE_NODE, PACKAGED], ids=["one node", "packaged"])
def test_the_example_fits_the_script_and_the_local_cluster(story: Story) -> None:
    job = TrainingJob.parse(job_manifest(example(story.example), S3, NOW))
    tiers = job.spec.capacity.tiers
    assert {scene.tier for scene in story.scenes} <= {tier.name for tier in tiers}
    for tier in tiers:
        assert any(tier.node_selector.items() <= node.labels.items() for node in DEFAULT_NODES), tier.name
    assert job.spec.trainer.image in DEFAULT_IMAGES
    s3 = job.spec.checkpoint.storage.s3
    assert s3 is not None
    assert (s3.endpoint, s3.bucket, s3.credentials_secret) == (S3.endpoint, "runs", "s3")


def test_the_example_on_several_nodes_fits_its_story() -> None:
    job = TrainingJob.parse(job_manifest(example(GANG.example), S3, NOW))
    assert job.spec.trainer.nodes == 4
    (tier,) = job.spec.capacity.tiers
    fitting = [node for node in GANG.nodes if tier.node_selector.items() <= node.labels.items()]
    assert len(fitting) == job.spec.trainer.nodes + len(GANG.scenes), "each interruption needs a new node"
    assert {scene.tier for scene in GANG.scenes} == {tier.name}


def test_the_operators_patience_is_known_to_it() -> None:
    assert Settings(patience=PATIENCE).operator_config().silent_timeout.total_seconds() == PATIENCE["silent_timeout"]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("kind: ConfigMap", "contains 0 TrainingJobs"),
        ("a: [", "cannot be read"),
        (
            "{kind: TrainingJob, metadata: {name: a}, spec: {checkpoint: {storage: {volumeClaim: {name: a}}}}}",
            "storage.s3 is not set",
        ),
    ],
)
def test_a_job_that_cannot_be_staged_is_refused(tmp_path: Path, content: str, wanted: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(content)
    with pytest.raises(DemoError, match=wanted):
        job_manifest(file, S3, NOW)
