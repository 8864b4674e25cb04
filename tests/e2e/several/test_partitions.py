"""A node is cut off while its processes live, and comes back: real torchrun and gloo, and a program as it is."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.e2e.conftest import PATIENCE
from tests.support.cluster.gangs import STEPS, TOTAL, train
from tests.support.cluster.isolated import needs_isolation
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import GPU, kinds, processes_of, restarts, storage_log, submit
from tests.support.free_ports import free_port
from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.service import service
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.agent.config import Capacity, NodeSpec
from holdfast_local.cluster import Cluster

pytestmark = [pytest.mark.training, needs_isolation]

SPOT = {"name": "spot", "kind": "Spot", "accelerator": GPU, "acquireTimeout": "60s"}
NODES = tuple(
    NodeSpec(name=f"n{number}", labels={names.LABEL_TIER: "spot"}, capacity=Capacity(accelerators={GPU: 1}))
    for number in range(1, 5)
)

# Rank 0 of attempt 1 waits until it is cut off, then until it is back, and then does what only a member may do.
ZOMBIE = """
import json, socket, ssl, threading, urllib.error, urllib.request
from urllib.parse import urlsplit
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment, read_settings
from holdfast_train.errors import FencedError
from holdfast_train.storage.opening import open_retrying

OWN = read_settings(os.environ)

def say(*words):
    print("zombie", *words, "\\n", end="", flush=True)

def connected():
    place = urlsplit(OWN.operator_url)
    try:
        socket.create_connection((place.hostname, place.port), timeout=1).close()
        return True
    except OSError:
        return False

def post(what, route, **body):
    job = f"/v1/namespaces/{os.environ['HOLDFAST_NAMESPACE']}/jobs/{os.environ['HOLDFAST_JOB']}/"
    token = pathlib.Path(OWN.token_file).read_text().strip()
    body["podUID"] = os.environ["HOLDFAST_POD_UID"]
    context = ssl.create_default_context(cafile=OWN.ca_file)
    for _ in range(100):
        request = urllib.request.Request(OWN.operator_url + job + route, json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Connection": "close"})
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                say(what, answer.status, answer.read().decode())
                return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                say(what, error.code)
                return
        except OSError:
            pass
        time.sleep(0.1)
    say(what, "no answer")

def haunt(log):
    while connected(): time.sleep(0.1)
    say("is cut off")
    while not connected(): time.sleep(0.05)
    say("is back")
    member = {"rank": 0, "attempt": 1, "state": "ready", "address": os.environ["HOLDFAST_POD_IP"], "port": 29999}
    report = {"sender": "Library", "state": "training", "step": 999, "steps": 998}
    for what, route, body in (
        ("joins", "member", member),
        ("reports", "progress", report | {"attempt": 1}),
        ("reports as a later one", "progress", report | {"attempt": 2}),
    ):
        # Side by side: each refusal takes a second, and its node ends this pod two seconds after it is back.
        threading.Thread(target=post, args=(what, route), kwargs=body, daemon=True).start()
    for what, write in {"commits": log.settle, "completes": lambda: log.complete(999), "leaves": log.hand_over}.items():
        try:
            log.refresh()
            write()
            say(what, "done")
        except FencedError:
            say(what, "refused")

if (attempt, rank) == ("1", 0):
    found = Environment.read()
    log = CommitLog(open_retrying(found, found.settings.checkpoint_uri), found.identity)
    log.fence = log.refresh().fence
    threading.Thread(target=haunt, args=(log,), daemon=True).start()
"""


@pytest.fixture(scope="module")
def isolated() -> Iterator[Cluster]:
    with running_cluster(network="isolated", audit=True, nodes=NODES) as cluster:
        cluster.install()
        yield cluster


@pytest.fixture
def namespace(isolated: Cluster) -> Iterator[str]:
    with fresh_namespace(isolated) as name:
        yield name


@pytest.fixture
def operators(isolated: Cluster) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """The one that leads, and one that waits; pods reach both at one address."""
    port = free_port()
    url = f"https://{isolated.address}:{port}"
    first, second = (OperatorProcess(isolated, patience=PATIENCE, progress_url=url) for _ in range(2))
    with ExitStack() as stack:
        stack.enter_context(service(isolated.address, port, [first.progress_port, second.progress_port]))
        for one in (first, second):
            stack.callback(one.kill)
            stack.callback(one.stop)
        first.start()
        second.start(wait=False)
        yield first, second


def written(cluster: Cluster, pod_uid: str) -> str:
    """What a pod's program printed, from the file of its node: kubectl does not reach a node that is cut off."""
    (folder,) = cluster.root.glob(f"nodes/*/pods/{pod_uid}")
    return "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("trainer*.log")))


@pytest.mark.thorough
def test_a_member_that_was_cut_off_and_comes_back_is_refused_everything(
    isolated: Cluster, namespace: str, operators: tuple[OperatorProcess, OperatorProcess], tmp_path: Path
) -> None:
    """Breaks if the job waits for the lost node, or if one of its calls or writes takes effect after it is back."""
    leader, other = operators
    job = train(isolated, namespace, SPOT, tmp_path, 2, aside=ZOMBIE)
    job.wait_checkpoint(20, 120)
    node, uid = job.node_of("job-1-0"), job.uid_of("job-1-0")
    kept = job.uid_of("job-1-1")

    isolated.partition(node)
    leader.bury()
    job.wait_attempt(2)
    assert processes_of(uid), "the processes of the node that was cut off live"
    assert job.uid_of("job-1-1") == kept
    assert job.uid_of("job-2-0")
    assert other.health()["leading"]
    wait_for(lambda: "zombie is cut off" in written(isolated, uid), 30, "the old rank 0 to notice that it is cut off")
    before = isolated.kubectl("get", "tj", "job", "-n", namespace, "-o", "jsonpath={.status.restarts}")

    said: list[str] = []

    def zombie_is_done() -> bool:
        said[:] = re.findall(r"zombie (?!is )(.*?) $", written(isolated, uid), re.MULTILINE)
        return len(said) == 6

    isolated.heal(node)
    wait_for(zombie_is_done, 60, "the old rank 0 to try everything")
    refused = r"joins 40[13]|reports 40[13]|reports as a later one 40[13]|(commits|completes|leaves) refused"
    assert [one for one in said if not re.fullmatch(refused, one)] == []
    wait_for(lambda: not processes_of(uid), 60, "the processes of the old rank 0 to end")
    wait_for(lambda: "job-1-0" not in job.by_name(), 60, "its pod to be removed")
    assert job.status()["attempt"] == 2, "the training that stood trained on"
    assert isolated.kubectl("get", "tj", "job", "-n", namespace, "-o", "jsonpath={.status.restarts}") == before

    job.hurry()
    status = job.wait_completed()
    assert restarts(status) == (1, 0, 0)
    lost = status["history"][0]
    assert (lost["kind"], lost["reason"], lost["rank"], lost["node"]) == ("Interruption", "NodeSilent", 0, node)
    records = storage_log(isolated, f"{namespace}/job")
    fence = kinds(records).index(("fence", 2))
    assert {attempt for _, attempt in kinds(records)[fence:]} == {2}
    for pod, attempt in {"job-2-0": 2, "job-1-1": 2}.items():
        rank = pod[-1]
        assert f"rank {rank} of 2 begins attempt {attempt} at " in job.printed(pod)
        assert f"rank {rank} ended at {STEPS}, total {TOTAL} " in job.printed(pod)


@pytest.mark.thorough
def test_a_program_as_it_is_that_was_cut_off_and_comes_back_is_refused_and_ended(
    isolated: Cluster, namespace: str, operators: tuple[OperatorProcess, OperatorProcess], tmp_path: Path
) -> None:
    """Breaks if the job waits for a person, or if what the old program saves takes effect after it is back."""
    command = ["python", str(REPOSITORY / "tests/support/trainer/plain.py"), "/outputs", "400", "0.3"]
    trainer = {
        "volumes": [{"name": "outputs", "mountPath": "/outputs", "emptyDir": {}}],
        "env": [{"name": "NOTES", "value": str(tmp_path / "notes")}],
    }
    job = submit(isolated, namespace, [SPOT], command, trainer=trainer, checkpoint={"folder": "/outputs"})
    job.wait_checkpoint(10, 120)
    node, uid = job.status()["node"], job.pods()[0]["metadata"]["uid"]

    isolated.partition(node)
    status = job.wait("a checkpoint of the next attempt", lambda s: _saved_by(isolated, namespace) == {1, 2}, 120)
    assert status["attempt"] == 2
    assert processes_of(uid), "the processes of the node that was cut off live"
    assert status["history"][0]["reason"] == "NodeSilent"
    resumed = int((tmp_path / "notes").read_text(encoding="utf-8").split("start ")[2].split()[0])
    assert resumed >= 10

    isolated.heal(node)
    wait_for(lambda: not processes_of(uid), 60, "the processes of the old attempt to end")
    wait_for(lambda: uid not in {pod["metadata"]["uid"] for pod in job.pods()}, 60, "its pod to be removed")
    records = kinds(storage_log(isolated, f"{namespace}/job"))
    assert {attempt for _, attempt in records[records.index(("fence", 2)) :]} == {2}
    assert job.status()["attempt"] == 2, "the training that stood trained on"
    job.delete()


def _saved_by(cluster: Cluster, namespace: str) -> set[int]:
    return {attempt for kind, attempt in kinds(storage_log(cluster, f"{namespace}/job")) if kind == "commit"}
