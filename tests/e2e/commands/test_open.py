"""`holdfast open`: a port of the pod that trains, before a move and after it."""

import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tests.support.cluster.training_jobs import Pool, submit
from tests.support.free_ports import free_port
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_cli.errors import ExitCode
from holdfast_local.cluster import Cluster

# A server beside the training, which names its attempt. It sends more than one message of a WebSocket holds.
SERVER = """
import os, threading, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

class Attempt(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOLDFAST_ATTEMPT"].encode() * 300_000)

class Server(HTTPServer):
    allow_reuse_port = True

server = Server(("127.0.0.1", int(os.environ["PORT"])), Attempt)
threading.Thread(target=server.serve_forever, daemon=True).start()

with Run(counter=Counter()) as run:
    for _ in run.steps():
        if not os.path.exists(os.environ["HURRY"]):
            time.sleep(0.1)
"""


def answer(url: str) -> bytes:
    """What the server answers; "" while it does not."""
    try:
        with urlopen(url, timeout=20) as got:
            return bytes(got.read())
    except (URLError, ConnectionError):
        return b""


# Breaks if the port is not that of the pod that trains, if bytes are lost, or if a move ends the command.
@pytest.mark.thorough
def test_a_port_stays_open_over_a_move(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool, tmp_path: Path
) -> None:
    port, hurry = free_port(), tmp_path / "hurry"
    tiers = [calm_pool.tier("spot"), calm_pool.tier("cpu")]
    trainer = {"env": [{"name": "PORT", "value": str(port)}, {"name": "HURRY", "value": str(hurry)}]}
    more = {"goal": {"steps": 3000}, "checkpoint": {"every": "1h"}}
    job = submit(cluster, namespace, tiers, ["python", "-c", SERVER], trainer=trainer, **more)
    job.wait_step(3)
    program = [str(Path(sys.executable).with_name("holdfast")), "open", "job", str(port), "-n", namespace]
    program += ["--kubeconfig", str(cluster.admin_kubeconfig)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as opened:
        try:
            assert opened.stdout is not None
            url = opened.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            wait_for(lambda: answer(url) == b"1" * 300_000, 30, "an answer of attempt 1")
            job.annotate(names.ANNOTATION_MOVE, "1 cpu")
            wait_for(lambda: answer(url)[:1] not in (b"", b"1"), 60, "an answer of the next attempt")
            hurry.touch()
            job.wait_phase("Completed")
            _, notes = opened.communicate(timeout=60)
        finally:
            opened.kill()
    assert opened.returncode == ExitCode.OK, notes
    assert "attempt 2, node" in notes, notes
    over = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
    assert over.returncode == ExitCode.FAILED
    assert "job is over (Completed)" in over.stderr
