"""`holdfast check FILE` against a real API server."""

from pathlib import Path

import pytest
import yaml
from tests.integration.api.conftest import Server
from tests.support.cluster.local_cluster import apply, exists
from tests.support.manifests.good_manifests import GOOD, changed
from typer.testing import CliRunner, Result

from holdfast_cli.check.command import app

pytestmark = pytest.mark.cluster


def check(server: Server, namespace: str, folder: Path, *manifests: dict[str, object]) -> Result:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    return CliRunner().invoke(app, [str(path), "--kubeconfig", str(server.kubeconfig), "-n", namespace])


def test_a_good_job_is_checked_and_not_created(server: Server, namespace: str, tmp_path: Path) -> None:
    result = check(server, namespace, tmp_path, GOOD)
    assert result.exit_code == 0
    assert "the API server would create the object" in result.stdout
    assert not exists(server.cluster, "trainingjob/good", namespace)


def test_what_is_missing_is_named(server: Server, namespace: str, tmp_path: Path) -> None:
    change = {
        "spec/checkpoint/storage/s3/credentialsSecret": "keys",
        "spec/capacity/tiers/0/nodeSelector": {"no-such": "label"},
    }
    result = check(server, namespace, tmp_path, changed(GOOD, change))
    assert result.exit_code == 0
    assert f'Secret "keys" is missing in namespace {namespace}' in result.stdout
    assert "spec.capacity.tiers[spot]: no node has its labels" in result.stdout
    missing_profile = check(server, namespace, tmp_path, changed(GOOD, {"spec/capacity": {"profile": "none-such"}}))
    assert 'capacityprofile "none-such" is missing' in missing_profile.stdout


def test_a_change_that_is_not_allowed_is_refused(server: Server, namespace: str, tmp_path: Path) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    result = check(server, namespace, tmp_path, changed(GOOD, {"spec/trainer/image": "registry.example/train:2"}))
    assert result.exit_code == 1
    assert "trainer must not change while the job runs" in result.stdout
    allowed = check(server, namespace, tmp_path, changed(GOOD, {"spec/goal": {"steps": 5}}))
    assert "the object exists, and the API server would change it" in allowed.stdout


def test_a_namespace_that_does_not_exist_is_a_refusal(server: Server, tmp_path: Path) -> None:
    result = check(server, "none-such", tmp_path, GOOD)
    assert result.exit_code == 1
    assert 'namespaces "none-such" not found' in result.stdout
