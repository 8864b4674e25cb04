"""`holdfast logs` beside what the programs of a job wrote, over attempts, ranks, and streams that break."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster.gangs import Gang
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.small_gangs import PROGRAM, environment
from tests.support.cluster.training_jobs import Pool, stub, submit
from tests.support.http.api_proxy import ApiProxy, api_proxy
from tests.support.operator.operator_process import OperatorProcess
from tests.support.terminal import on_terminal
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_cli.errors import ExitCode
from holdfast_local.cluster import Cluster

STEPS = 2000
# Each rank of each attempt writes the same lines to a file and to its standard output, first to the file.
WRITER = """
import itertools, os, threading, time

def write():
    rank, attempt = os.environ["RANK"], os.environ["HOLDFAST_ATTEMPT"]
    with open(os.path.join(os.environ["LINES"], f"{rank}-{attempt}"), "ab", buffering=0) as file:
        for number in itertools.count():
            line = f"line {number} of {rank} in {attempt} {'x' * (number % 90)}\\n".encode()
            file.write(line)
            os.write(1, line)
            time.sleep(0.005)

threading.Thread(target=write, daemon=True).start()
print = lambda *_, **__: None  # it writes the end of a line on its own, and others write in between
"""
_LINE = re.compile(rb"(?:rank (\d) \| )?(line \d+ of (\d) in (\d) x*)")


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[ApiProxy]:
    """The way to the API server, which a test can cut."""
    with api_proxy(cluster.server, cluster.ca_cert) as running:
        yield running


def viewer(cluster: Cluster, namespace: str) -> Path:
    """A kubeconfig of a user who may do what the role view allows: see jobs, pods and their logs."""
    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    rule = ["--verb=get,list,watch", "--resource=trainingjobs.holdfast.dev,pods,pods/log"]
    cluster.kubectl("create", "role", "reader", "-n", namespace, *rule)
    account = f"--serviceaccount={namespace}:reader"
    cluster.kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", account)
    return cluster.kubeconfig_for(namespace, "reader")


def command(kubeconfig: Path, namespace: str, *arguments: str) -> list[str]:
    """The command line that a person types."""
    program = str(Path(sys.executable).with_name("holdfast"))
    return [program, "logs", "job", *arguments, "-n", namespace, "--kubeconfig", str(kubeconfig)]


def logs(cluster: Cluster, namespace: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end."""
    line = command(cluster.admin_kubeconfig, namespace, *arguments)
    return subprocess.run(line, check=False, capture_output=True, timeout=300)


def shown_lines(output: bytes) -> dict[str, list[bytes]]:
    """The lines of the writers by rank and attempt, in the order in which they are shown."""
    found: dict[str, list[bytes]] = {}
    for text in output.splitlines():
        if match := _LINE.fullmatch(text):
            prefix, line, rank, attempt = match.groups()
            assert prefix in (None, rank)
            found.setdefault(f"{rank.decode()}-{attempt.decode()}", []).append(line)
    return found


def texts(output: bytes) -> list[bytes]:
    """The lines without their times."""
    return [line.partition(b" ")[2] for line in output.splitlines()]


def written_lines(folder: Path) -> dict[str, list[bytes]]:
    """The lines that the writers wrote, by rank and attempt."""
    return {file.name: file.read_bytes().splitlines() for file in folder.iterdir()}


# Breaks if a line is missing or comes twice, if its rank is wrong, or if the command ends before the job, when attempts
# follow each other in new pods and in pods that stay, and connections break in the middle of lines.
@pytest.mark.thorough
def test_three_attempts_of_four_ranks_are_followed_byte_for_byte(  # noqa: PLR0917 - fixtures
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, proxy: ApiProxy, tmp_path: Path
) -> None:
    lines, kubeconfig = tmp_path / "lines", proxy.kubeconfig(viewer(cluster, namespace), tmp_path / "config")
    lines.mkdir()
    everywhere = {"nodeSelector": {"test/pool": pool.name}, "acquireTimeout": "3m"}
    tiers = [pool.tier("cpu", **everywhere), {**pool.tier("cpu", **everywhere), "name": "other"}]
    trainer = {
        "nodes": 4,
        "resources": {"cpu": "100m", "memory": "512Mi"},
        "env": [*environment(tmp_path / "done", STEPS), {"name": "LINES", "value": str(lines)}],
    }
    made = submit(cluster, namespace, tiers, ["python", "-c", WRITER + PROGRAM], trainer=trainer, goal={"steps": STEPS})
    job = Gang(cluster, namespace, made.name, made.manifest)
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        following = subprocess.Popen(
            command(kubeconfig, namespace, "-f", "--rank", "all"), stdout=to_out, stderr=to_err
        )
        try:
            for number in (1, 2):
                job.wait_attempt(number)
                for _ in range(2):
                    before = out.stat().st_size
                    proxy.cut_logs()
                    wait_for(lambda at=before: out.stat().st_size > at, 20, lambda: f"more lines: {err.read_text()}")
                if number == 1:
                    job.annotate(names.ANNOTATION_MOVE, "1 other")
            (tmp_path / "fast").touch()
            lost = next(pod for pod in job.alive() if pod.endswith("-2"))
            delete(cluster, f"pod/{lost}", namespace)
            job.wait_completed()
            assert following.wait(120) == 0, err.read_text()
        finally:
            following.kill()
            following.wait()

    shown, written = shown_lines(out.read_bytes()), written_lines(lines)
    assert sorted(written) == [f"{rank}-{attempt}" for rank in range(4) for attempt in (1, 2, 3)]
    for name, whole in written.items():
        seen = shown.get(name, [])
        assert seen == whole[: len(seen)], name
        assert len(whole) - len(seen) <= 1, f"{name}: only a line in flight when a program is killed is in no log"
    heads = [line for line in err.read_text().splitlines() if line.startswith("--- attempt")]
    assert [head.split()[2] for head in heads] == ["1", "2", "3"], err.read_text()
    assert "--- attempt 2 on other" in heads[1]

    # What stays in the cluster, with the options that choose from it.
    assert shown_lines(logs(cluster, namespace, "--attempt", "3").stdout) == {"0-3": shown["0-3"]}
    last = logs(cluster, namespace, "--tail", "3", "--grep", "of 0 in 3").stdout.splitlines()
    assert last == shown["0-3"][-3:]
    assert logs(cluster, namespace, "--rank", "7").returncode == ExitCode.USAGE
    assert b"has no attempt 9" in logs(cluster, namespace, "--attempt", "9").stderr

    # What the storage has once no pod is there any more, although pods worked for several attempts.
    cluster.kubectl("delete", "pods", "--all", "-n", namespace)
    assert shown_lines(logs(cluster, namespace, "--rank", "all").stdout) == shown
    assert shown_lines(logs(cluster, namespace, "--rank", "2", "--attempt", "2").stdout) == {"2-2": shown["2-2"]}


# Breaks if a job that waits gives an error in place of a reason, if a failed job counts as a good end, if the log of a
# pod that is gone is not shown, or if a person who may not read it is not told.
def test_a_job_that_waits_and_then_fails(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    nowhere = {"name": "nowhere", "kind": "CPU", "nodeSelector": {"test/none": "yes"}}
    script = 'echo "words of $HOLDFAST_ATTEMPT"; printf "no end"; exit 3'
    waits = submit(cluster, namespace, [nowhere], ["sh", "-c", script], failure={"maxFailures": 1})
    waits.wait_phase("Acquiring")
    said = logs(cluster, namespace)
    assert (said.returncode, said.stdout) == (0, b"")
    assert b"job is Acquiring: " in said.stderr

    waits.patch({"capacity": {"tiers": [calm_pool.tier("cpu")]}})
    said = logs(cluster, namespace, "--follow", "--grep", "o")
    assert said.returncode == ExitCode.FAILED, said.stderr
    words = [line for line in said.stdout.splitlines() if line.startswith((b"words", b"no end"))]
    numbers = sorted({line.split()[-1] for line in words if line.startswith(b"words")})
    assert len(numbers) == 2
    assert words == [b"words of " + numbers[0], b"no end", b"words of " + numbers[1], b"no end"]
    assert f"node {calm_pool.node('cpu-1')}" in said.stderr.decode()

    first = int(numbers[0])
    delete(cluster, f"pod/job-{first}-0", namespace)
    wait_for(lambda: waits.pod(first) is None, 30, "the pod of the first attempt to be gone")
    said = logs(cluster, namespace, "--grep", "o", "--timestamps")
    lines = [line.partition(b" ") for line in said.stdout.splitlines()]
    assert [text for _, _, text in lines if text.startswith((b"words", b"no end"))] == words
    assert [at for at, _, _ in lines] == sorted(at for at, _, _ in lines)
    kept = logs(cluster, namespace, "--attempt", str(first))
    assert kept.returncode == ExitCode.OK
    assert kept.stdout.splitlines()[-2:] == words[:2]
    assert logs(cluster, namespace, "--attempt", str(first), "--tail", "1").stdout == b"no end\n"

    viewers = viewer(cluster, namespace)
    said = subprocess.run(command(viewers, namespace), check=False, capture_output=True, timeout=300)
    assert "may be kept beside the checkpoints, but: you may not read the job's keys" in said.stderr.decode()
    assert f"not there any more: the log of attempt {first};" in said.stderr.decode()
    assert words[0] not in said.stdout
    assert words[2] in said.stdout
    gone = subprocess.run(command(viewers, namespace, "--attempt", str(first)), check=False, capture_output=True)
    assert gone.returncode == ExitCode.NOT_FOUND


# Breaks if following a job of one node loses or repeats a line when it moves.
def test_a_move_of_a_job_with_one_node_is_followed(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool, tmp_path: Path
) -> None:
    tiers = [calm_pool.tier("spot"), calm_pool.tier("cpu")]
    job = submit(cluster, namespace, tiers, stub("--step-seconds", 0.05), goal={"steps": 300})
    job.wait_step(5)
    out = tmp_path / "out"
    with out.open("wb") as to_out:
        following = subprocess.Popen(
            command(cluster.admin_kubeconfig, namespace, "--follow", "--timestamps"),
            stdout=to_out,
            stderr=subprocess.PIPE,
        )
        try:
            wait_for(lambda: b"step 5 " in out.read_bytes(), 60, "the first lines")
            job.annotate(names.ANNOTATION_MOVE, "1 cpu")
            job.wait_phase("Completed")
            _, notes = following.communicate(timeout=120)
        finally:
            following.kill()
            following.wait()
    assert following.returncode == 0, notes
    assert b"attempt 1 on spot" in notes
    assert b"attempt 2 on cpu" in notes
    whole = logs(cluster, namespace, "--timestamps").stdout
    assert b"total 45150\n" in whole
    # A pod that is gone has noted its own times.
    assert texts(out.read_bytes()) == texts(whole)
    steps = [int(found) for found in re.findall(rb"^\S+ step (\d+) loss", out.read_bytes(), re.MULTILINE)]
    assert steps == list(range(1, 301)), "each attempt goes on where the one before it has saved"


# Breaks if the state of a real job does not follow it below its log, or stands in the middle of its lines.
def test_the_state_stands_below_the_log_on_a_terminal(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    steps = 60
    made = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.1), goal={"steps": steps})
    line = command(cluster.admin_kubeconfig, namespace, "--follow")
    with on_terminal(line, os.environ) as (terminal, process):
        terminal.shows("Running · cpu · step ", 60)
        made.wait_phase("Completed")
        assert process.wait(120) == 0, terminal.rows
        terminal.shows("Completed · ")
        rows = [row for row in terminal.rows if row]
    assert rows[-1].startswith(f"Completed · step {steps} / {steps} (100.0%)")
    assert [int(row.split()[1]) for row in rows if row.startswith("step ")] == list(range(1, steps + 1))
    assert sum("Completed · " in row or "Running · " in row for row in rows) == 1
