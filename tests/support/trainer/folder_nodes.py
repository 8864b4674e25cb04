"""The writers of a training with a folder on several nodes, without launchers and without programs."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.trainer.folders import pod
from tests.support.waiting import wait_for

from holdfast_protocol.rank_verdict import RankVerdict, read


class Node:
    """The writer of the node `rank`. `roots`: the folders of all nodes."""

    def __init__(self, place: Path, uri: str, attempt: int, rank: int, roots: Sequence[Path], **more: Any) -> None:
        self.rank, self.root = rank, roots[rank]
        self.verdicts = place / f"verdicts-{attempt}-{rank}"
        self.verdicts.mkdir(exist_ok=True)
        self.errors = place / f"stderr-{attempt}-{rank}"
        own = {
            "HOLDFAST_NODES": str(len(roots)),
            "HOLDFAST_RANK": str(rank),
            "HOLDFAST_POD_IP": "127.0.0.1",
            "HOLDFAST_POD_UID": f"pod-{attempt}-{rank}",
            "HOLDFAST_VERDICT_DIR": str(self.verdicts),
        }
        self.environment = pod(self.root, uri, attempt, place / f"log-{attempt}-{rank}", **(own | more))
        self.process = self._start()

    def _start(self, *arguments: str) -> "subprocess.Popen[str]":
        with self.errors.open("a") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "holdfast_train.folder.writer", *arguments],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def again(self) -> None:
        """Kill the writer, and start another one in its place."""
        self.kill()
        self.take_place()

    def take_place(self) -> None:
        """Start a writer in the place of one that has ended."""
        self.process = self._start("again")

    def told(self) -> dict[str, Any]:
        """The next line to the launcher; empty at their end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found: dict[str, Any] = json.loads(line) if line else {}
        return found

    def finish(self, code: int | None = 0, *, signalled: bool = False, seconds: float | None = None) -> None:
        """The program has ended."""
        at = time.time() if signalled else None
        command = {"do": "finish", "signalledAt": at, "code": code, "seconds": seconds}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def said(self, text: str) -> bool:
        return text in self.errors.read_text()

    @property
    def verdict(self) -> RankVerdict:
        return read((self.verdicts / f"rank-{self.rank}.json").read_bytes())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


class Nodes:
    """All writers of one attempt. `roots`: the folder of each node; two equal ones are a volume that nodes share."""

    def __init__(self, place: Path, attempt: int, roots: Sequence[Path], *, uri: str = "", **more: Any) -> None:
        (place / "volume").mkdir(exist_ok=True)
        uri = uri or f"file://{place}/volume/job"
        self.nodes = [Node(place, uri, attempt, rank, roots, **more) for rank in range(len(roots))]

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()

    def __getitem__(self, rank: int) -> Node:
        return self.nodes[rank]

    def are_ready(self) -> list[str]:
        """Wait until the programs may start. The newest save of each node."""
        told = [node.told() for node in self.nodes]
        assert [one.get("state") for one in told] == ["ready"] * len(self.nodes), [
            node.errors.read_text() for node in self.nodes
        ]
        return [one["newest"] for one in told]

    def wait_for_commit(self, text: str, seconds: float = 60) -> None:
        """Wait until node 0 says that a save is committed."""
        wait_for(lambda: any("is saved" in line and text in line for line in self._lines()), seconds, f"commit {text}")

    @property
    def commits(self) -> int:
        """How often node 0 has said that a save is committed."""
        return sum("the folder is saved" in line for line in self._lines())

    def stay_uncommitted(self, seconds: float) -> None:
        """Look for so many seconds, and see that nothing is committed."""
        before, until = self.commits, time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.commits == before, self._lines()[-1]
            time.sleep(0.1)

    def _lines(self) -> list[str]:
        return self.nodes[0].errors.read_text().splitlines()

    def finish(self, code: int | None = 0, **how: Any) -> list[str]:
        """The programs of all nodes have ended. What each writer tells at its end."""
        for node in self.nodes:
            node.finish(code, **how)
        return [str(node.told().get("state")) for node in self.nodes]
