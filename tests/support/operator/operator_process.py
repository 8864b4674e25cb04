"""The operator as a process of its own, for tests that need the real thing: signals, sockets, a service account."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from tests.support.free_ports import free_port
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

NAMESPACE = "holdfast-system"
RENDERED_AT = "holdfast_metrics_rendered_timestamp_seconds"


def _samples(page: str) -> Iterator[tuple[str, float]]:
    """The series of a page of metrics, as they are written there, and their values."""
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if not line.startswith("#") and series:
            yield series, float(value)


class OperatorProcess:
    """One operator under its own service account. Use it as a context manager, or call start and stop.

    `settings` are flags of `holdfast-operator run` with underscores; `decider` names another decide function as
    `module:function`, for tests of the runtime alone.
    """

    def __init__(self, cluster: Cluster, decider: str | None = None, **settings: Any) -> None:
        self.cluster = cluster
        self.progress_port = free_port()
        self.health_port = free_port()
        self.metrics_port = free_port()
        self.progress_url = f"https://{cluster.address}:{self.progress_port}"
        self.logs = cluster.root / f"operator-{self.health_port}.log"
        self._decider = decider
        self._settings = {
            "namespace": NAMESPACE,
            "kubeconfig": str(cluster.kubeconfig_for(NAMESPACE, "holdfast")),
            "progress_bind": f"{cluster.address}:{self.progress_port}",
            "progress_url": self.progress_url,
            "health_bind": f"127.0.0.1:{self.health_port}",
            "metrics_bind": f"127.0.0.1:{self.metrics_port}",
            "metrics_auth": "off",
            "seed": 1,
            "log_level": "DEBUG",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self, wait: bool = True, freeze: dict[str, str] | None = None) -> Self:
        """Start it, and wait until it leads and serves. `freeze`: see operator_main."""
        command = [sys.executable, "-m", "tests.support.operator.operator_main", *self._flags()]
        for job, count in (freeze or {}).items():
            command += ["--freeze-after", f"{job}={count}"]
        if self._decider:
            command += ["--decider", self._decider]
        root = Path(__file__).parents[3]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "operator"), str(root)))}
        with self.logs.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=root, start_new_session=True)
        if wait:
            self.wait_ready()
        return self

    def _flags(self) -> list[str]:
        flags: list[str] = []
        for name, value in self._settings.items():
            if name == "patience":
                flags += [part for pair in value.items() for part in ("--patience", "=".join(map(str, pair)))]
            else:
                flags += [f"--{name.replace('_', '-')}", str(value)]
        return flags

    def wait_ready(self, timeout: float = 30) -> None:
        """Until it leads and serves. Raises RuntimeError if it ends, and TimeoutError, with the end of the log."""

        def ready() -> bool:
            if self.returncode is not None:
                raise RuntimeError(f"the operator ended with {self.returncode}:\n{self.log_tail()}")
            health = self.health()
            return bool(health.get("leading") and health.get("serving"))

        wait_for(ready, timeout, lambda: f"the operator to lead\n{self.log_tail()}")

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self, timeout: float = 60) -> int:
        """SIGTERM, and wait; its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def up(self) -> Self:
        """Start it if it does not run."""
        return self if self.running else self.start()

    def end(self) -> None:
        """Stop it, or kill it if it does not stop."""
        try:
            self.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def bury(self) -> None:
        """SIGKILL, and delete the Lease, so that the next operator need not wait for it."""
        self.kill()
        self.cluster.kubectl("delete", "lease", "holdfast", "-n", NAMESPACE, "--ignore-not-found")

    def pause(self) -> None:
        """SIGSTOP: as a machine that hangs."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end; its exit code."""
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the operator did not end within {timeout}s:\n{self.log_tail()}") from None

    def get(self, path: str) -> tuple[int, str]:
        """GET from the health port, or /metrics: status and body; (0, "") if nobody answers."""
        port = self.metrics_port if path == "/metrics" else self.health_port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def health(self) -> dict[str, Any]:
        """What /healthz says; empty if nobody answers."""
        status, body = self.get("/healthz")
        return json.loads(body) if status else {}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of a metric that carry these labels; 0 if nobody answers."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        samples = _samples(self.metrics_page())
        return sum(
            value
            for series, value in samples
            if series.partition("{")[0] == name and all(label in series for label in wanted)
        )

    def metrics_page(self) -> str:
        """A page of /metrics that shows all that happened before this call; empty if nobody answers.

        The operator gives one page to all who ask shortly after each other, and refuses who asks too often.
        """
        called_at = time.time()

        def fresh() -> tuple[str] | None:
            code, page = self.get("/metrics")
            if code == 200 and dict(_samples(page)).get(RENDERED_AT, 0.0) < called_at:
                return None
            return (page,) if code in (0, 200) else None

        (page,) = wait_for(fresh, 60, "a new page of metrics")
        return page

    def log_lines(self) -> list[dict[str, Any]]:
        """The log, as far as it is JSON."""
        lines = self.logs.read_text(errors="replace").splitlines() if self.logs.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log."""
        return "\n".join(self.logs.read_text(errors="replace").splitlines()[-lines:]) if self.logs.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.end()


@contextmanager
def in_place_of(shared: OperatorProcess) -> Iterator[Callable[..., OperatorProcess]]:
    """Stop the operator that tests share, and give what makes others in its cluster; they are ended afterwards.

    They are not started. Arguments are those of OperatorProcess, without the cluster.
    """
    shared.stop()
    with ExitStack() as made:

        def make(**settings: Any) -> OperatorProcess:
            process = OperatorProcess(shared.cluster, **settings)
            made.callback(process.end)
            return process

        yield make
