"""A storage in a company's network: with a private CA, behind a proxy, with the bucket in the name of its host."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cluster.local_cluster import apply
from tests.support.cluster.training_jobs import Job, Pool, Raw, job_manifest, stub
from tests.support.http.forward_proxy import ForwardProxy, forward_proxy
from tests.support.http.s3_server import S3Server
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster
from holdfast_local.pki import Pki

DOMAIN = "store.test"
PROGRAM = stub("--step-seconds", 0.05)
# For the data of the program: a proxy and a CA that cannot work.
ENV = [{"name": name, "value": value} for name, value in (
    ("HTTPS_PROXY", "http://127.0.0.1:9"), ("https_proxy", "http://127.0.0.1:9"), ("AWS_CA_BUNDLE", "/nonexistent"),
)]  # fmt: skip


@dataclass(frozen=True)
class Store:
    """The server, the proxy before it, and the CA of its certificate."""

    server: S3Server
    proxy: ForwardProxy
    pki: Pki


@pytest.fixture
def store(operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store, and an operator that knows nothing of it."""
    pki, folder = Pki(tmp_path_factory.mktemp("pki")), tmp_path_factory.mktemp("s3")
    tls = pki.issue("store", "store", hosts=("127.0.0.1", f"*.{DOMAIN}"))
    server = S3Server(folder, tls=tls, options=["--virtual-domain", DOMAIN])
    server.start()
    (folder / server.bucket).mkdir()
    with forward_proxy({DOMAIN: server.port}) as proxy:
        yield Store(server, proxy, pki)
    server.kill()


def secret(private: S3Server) -> Raw:
    data = {"AWS_ACCESS_KEY_ID": private.access_key, "AWS_SECRET_ACCESS_KEY": private.secret_key}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": data}


def ca(pki: Pki) -> Raw:
    metadata = {"name": "company"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"root.pem": pki.cert.read_text()}}


def submit(cluster: Cluster, namespace: str, pool: Pool, private: S3Server, **s3: object) -> Job:
    storage = {
        "bucket": private.bucket, "prefix": f"{namespace}/job", "endpoint": f"https://{DOMAIN}",
        "addressing": "Virtual", "credentialsSecret": "s3", **s3,
    }  # fmt: skip
    manifest = job_manifest(
        cluster, namespace, "job", [pool.tier("cpu")], PROGRAM, goal={"steps": 200}, trainer={"env": ENV},
        checkpoint={"storage": {"s3": storage}},
    )  # fmt: skip
    apply(cluster, secret(private), namespace=namespace)
    apply(cluster, manifest)
    return Job(cluster, namespace, "job", manifest)


def ends(status: Raw) -> list[str]:
    """Why each attempt ended."""
    return [entry["reason"] for entry in status.get("history") or ()]


# Breaks if a part of Holdfast reaches the storage in another way than the job says, or a CA that was corrected counts
# only after an edit of the job.
def test_a_job_trains_saves_and_resumes_on_such_a_storage(
    cluster: Cluster, namespace: str, store: Store, pool: Pool, tmp_path: Path
) -> None:
    key = {"configMap": {"name": "company", "key": "root.pem"}}
    apply(cluster, ca(store.pki), namespace=namespace)
    job = submit(cluster, namespace, pool, store.server, ca=key, proxy=store.proxy.address)
    job.wait_checkpoint(40)
    apply(cluster, ca(Pki(tmp_path)), namespace=namespace)  # somebody replaces the CA by a wrong one
    cluster.kubectl("delete", "pod", "job-1-0", "-n", namespace, "--wait=false")  # stands for any loss
    refused = job.wait("a refusal", lambda s: ends(s)[-1:] == ["StorageUntrusted"])
    last = refused["history"][-1]
    assert last["kind"] in ("Interruption", "Stopped"), "Stopped: it began while the pod of attempt 1 still ended"
    assert "spec.checkpoint.storage.s3.ca" in last["message"]
    apply(cluster, ca(store.pki), namespace=namespace)
    done = job.wait_phase("Completed", "Failed", timeout=120)
    assert (done["phase"], done["history"][-1]["resumedStep"] >= 40) == ("Completed", True)
    assert {target for _, target in store.proxy.seen} == {f"runs.{DOMAIN}:443"}
    store.proxy.seen.clear()
    command = [str(Path(sys.executable).with_name("holdfast")), "checkpoints", "list", "job", "-n", namespace]
    command += ["--kubeconfig", str(cluster.admin_kubeconfig)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90).stdout
    assert "200" in shown
    assert {target for _, target in store.proxy.seen} == {f"runs.{DOMAIN}:443"}


# Breaks if a job that can never reach its storage burns one node after the other.
def test_a_job_that_names_no_ca_is_told_so_in_seconds(
    cluster: Cluster, namespace: str, store: Store, calm_pool: Pool
) -> None:
    job = submit(cluster, namespace, calm_pool, store.server, proxy=store.proxy.address)
    failed = job.wait_phase("Failed", "Completed")
    assert (failed["phase"], failed["reason"], failed["attempt"]) == ("Failed", "StorageUntrusted", 1)
    assert [entry["kind"] for entry in failed["history"]] == ["Misconfigured"]
