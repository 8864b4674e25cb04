"""`holdfast exec`: commands and shells in the pod that trains, over pipes and on a terminal."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tarfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from tests.support.cluster.training_jobs import Job, Pool, stub, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast.api import names
from holdfast_cli.errors import ExitCode
from holdfast_local.cluster import Cluster

PATIENCE = 60.0  # seconds


def line(kubeconfig: Path, namespace: str, *words: str) -> list[str]:
    """The command line that a person types."""
    program = str(Path(sys.executable).with_name("holdfast"))
    return [program, "exec", "job", "-n", namespace, "--kubeconfig", str(kubeconfig), *words]


def execute(
    cluster: Cluster, namespace: str, *words: str, stdin: bytes = b"", kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end, without a terminal."""
    typed = line(kubeconfig or cluster.admin_kubeconfig, namespace, *words)
    return subprocess.run(typed, input=stdin, capture_output=True, check=False, timeout=PATIENCE)


def training(cluster: Cluster, namespace: str, pool: Pool) -> Job:
    """A job that trains until it is deleted, on a tier that it can leave for another one."""
    tiers = [pool.tier("spot"), pool.tier("cpu")]
    job = submit(cluster, namespace, tiers, stub("--step-seconds", "0.1"), goal={"steps": 100_000})
    job.wait_step(1)
    return job


class Person:
    """A person at a terminal, in which the command runs."""

    def __init__(self, command: list[str]) -> None:
        self.terminal, inside = pty.openpty()
        termios.tcsetwinsize(inside, (33, 99))
        self.settings = termios.tcgetattr(inside)
        self._inside = inside
        self.process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
        self.screen = b""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.terminal, text.encode())

    def until(self, pattern: str) -> re.Match[bytes]:
        """Wait until the screen shows it; what is before it is not looked at again."""
        end, reads = monotonic() + PATIENCE, select.poll()
        reads.register(self.terminal, select.POLLIN)
        while (found := re.search(pattern.encode(), self.screen)) is None:
            assert reads.poll(1000 * max(0.0, end - monotonic())), self.screen
            self.screen += os.read(self.terminal, 4096)
        self.screen = self.screen[found.end() :]
        return found

    def resize(self, lines: int, columns: int) -> None:
        """Change the size of the window."""
        termios.tcsetwinsize(self.terminal, (lines, columns))
        self.process.send_signal(signal.SIGWINCH)  # the kernel tells only the session whose terminal it is

    def is_as_before(self) -> bool:
        """True if the settings of the terminal are those from before the command."""
        return termios.tcgetattr(self._inside) == self.settings

    def close(self) -> None:
        """Leave."""
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self._inside)


@contextmanager
def person(command: list[str]) -> Iterator[Person]:
    """A person types into a shell, which ends with the test."""
    made = Person(command)
    try:
        yield made
    finally:
        made.close()


# Breaks if a byte is lost or changed, if the streams are mixed, if the command does not see the end of its input, or if
# the exit code is another one.
def test_streams_and_exit_codes(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    training(cluster, namespace, calm_pool)
    sent = os.urandom(5_000_000)
    echoed = execute(cluster, namespace, "--", "cat", stdin=sent)
    assert (echoed.returncode, echoed.stdout == sent, echoed.stderr) == (0, True, b"")
    both = execute(cluster, namespace, "--", "sh", "-c", 'echo "$HOLDFAST_ATTEMPT"; echo trouble >&2; exit 7', "-n")
    assert (both.returncode, both.stdout, both.stderr) == (7, b"1\n", b"trouble\n")

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(__file__, "x/file.py")
    unpacked = execute(cluster, namespace, "--", "sh", "-c", "tar xf - && cat x/file.py", stdin=archive.getvalue())
    assert (unpacked.returncode, unpacked.stdout) == (0, Path(__file__).read_bytes()), unpacked.stderr
    with Path(__file__).open("rb") as file:
        typed = line(cluster.admin_kubeconfig, namespace, "--", "wc", "-c")
        counted = subprocess.run(typed, stdin=file, capture_output=True, check=True, timeout=PATIENCE)
    assert int(counted.stdout) == Path(__file__).stat().st_size

    missing = execute(cluster, namespace, "--", "no-such-program")
    assert missing.returncode == ExitCode.FAILED
    assert b"no-such-program did not start in pod job-1-0: " in missing.stderr
    assert b"executable file not found in $PATH" in missing.stderr


# Breaks if a person does not learn why no command runs, or if an exit code is not that of `holdfast open`.
def test_what_is_refused(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    assert execute(cluster, namespace, "--", "true").returncode == ExitCode.NOT_FOUND
    job = training(cluster, namespace, calm_pool)
    nothing = execute(cluster, namespace)
    assert (nothing.returncode, b"name the command" in nothing.stderr) == (ExitCode.USAGE, True)
    rank = execute(cluster, namespace, "--rank", "1", "--", "true")
    assert (rank.returncode, b"--rank 1: job has 1 nodes" in rank.stderr) == (ExitCode.USAGE, True)

    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    rule = ["--verb=get,list,watch", "--resource=trainingjobs.holdfast.dev,pods"]
    cluster.kubectl("create", "role", "reader", "-n", namespace, *rule)
    account = f"--serviceaccount={namespace}:reader"
    cluster.kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", account)
    denied = execute(cluster, namespace, "--", "true", kubeconfig=cluster.kubeconfig_for(namespace, "reader"))
    assert denied.returncode == ExitCode.FORBIDDEN
    assert b'"pods/exec"' in denied.stderr
    assert b"the role edit" in denied.stderr

    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    paused = execute(cluster, namespace, "--", "true")
    assert (paused.returncode, b"job is suspended" in paused.stderr) == (ExitCode.FAILED, True)
    assert b"holdfast resume job" in paused.stderr


# Breaks if a job without a node is not waited for, in silence, or if Ctrl-C does not end the wait.
def test_it_waits_for_a_node(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    tier = {**calm_pool.tier("spot"), "nodeSelector": {"test/none": "here"}, "acquireTimeout": "1h"}
    job = submit(cluster, namespace, [tier], stub("--step-seconds", "0.1"), goal={"steps": 100_000})
    job.wait_phase("Acquiring")
    typed = line(cluster.admin_kubeconfig, namespace, "--", "true")
    with subprocess.Popen(typed, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("job is Acquiring: ")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE) == ExitCode.INTERRUPTED


# Breaks if a command is repeated on its own, or if a script cannot see that the pod went away while it ran.
def test_a_move_ends_a_command(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    job = training(cluster, namespace, calm_pool)
    typed = line(cluster.admin_kubeconfig, namespace, "--", "sh", "-c", "echo begun; exec sleep 1000")
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        job.annotate(names.ANNOTATION_MOVE, "1 cpu")
        output, notes = running.communicate(timeout=PATIENCE)
    assert (running.returncode, output) == (255, "")
    assert "pod job-1-0 has ended: job goes on in its next pod" in notes
    assert "run it again" in notes


# Breaks if the command has no terminal or not its size, if Ctrl-C ends `holdfast exec` in place of the command, if a
# move ends a shell, or if the terminal of the person stays as the command needs it.
def test_a_shell_on_a_terminal(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    job = training(cluster, namespace, calm_pool)
    with person(line(cluster.admin_kubeconfig, namespace)) as user:
        user.type("stty size\r")
        user.until(r"33 99\r\n")
        assert not user.is_as_before()
        user.resize(44, 111)
        user.type("until [ \"$(stty size)\" = '44 111' ]; do :; done; echo new $((40 + 2))\r")
        user.until(r"new 42\r\n")
        user.type("sleep 1000\r")
        user.until(r"sleep 1000\r\n")
        user.type("\x03")
        user.type("echo code $?\r")
        user.until(r"code 130\r\n")
        job.annotate(names.ANNOTATION_MOVE, "1 cpu")
        user.until("pod job-1-0 has ended: job goes on in its next pod")
        user.until(r"a new shell in pod job-\d-0, attempt \d, node p")
        user.type("echo attempt $HOLDFAST_ATTEMPT; exit 5\r")
        user.until(r"attempt [2-9]\r\n")
        assert user.process.wait(PATIENCE) == 5
        assert user.is_as_before()


# Breaks if the terminal of a person shows no keys after SIGTERM, or after an error.
def test_the_terminal_is_put_back(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    training(cluster, namespace, calm_pool)
    with person(line(cluster.admin_kubeconfig, namespace, "--", "sh", "-c", "echo ready; sleep 1000")) as user:
        user.until(r"ready\r\n")
        assert not user.is_as_before()
        user.process.send_signal(signal.SIGTERM)
        assert user.process.wait(PATIENCE) == ExitCode.INTERRUPTED
        assert user.is_as_before()
    with person(line(cluster.admin_kubeconfig, namespace, "--", "no-such-program")) as user:
        user.until("did not start in pod job-1-0")
        assert user.process.wait(PATIENCE) == ExitCode.FAILED
        assert user.is_as_before()
