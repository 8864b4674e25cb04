"""Trainings with checkpoint.folder on several nodes, whose writers and programs are killed at random moments.

A training is some attempts on one prefix. In each one the programs write the folders `step-N`, a file of every node in
each, with pauses between the nodes and inside of the files. Writers are killed beside them, and others take their
places; at the end of the attempt all are killed at once, wherever they are. Then either the folders are lost or they
stay. Sometimes an attempt goes on while the next one has begun.
"""

import io
import random
import re
import shutil
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.trainer.folder_nodes import Nodes
from tests.support.trainer.folders import content
from tests.torture.chain import BrokenError

STEPS: Final = 10  # between two saves
BYTES: Final = 1_200_000  # of a file
PIECES: Final = 3
LATER: Final = 900_000  # added to the steps of an attempt that is replaced: none of them may be seen again
_SAVED: Final = re.compile(r"the folder is saved: .*the newest save is step-(\d+)")


@dataclass
class Tally:
    """What came of it."""

    attempts: int = 0
    writers: int = 0
    programs: int = 0
    committed: int = 0
    compared: int = 0
    zombies: int = 0

    @property
    def kills(self) -> int:
        """Of single writers, and of all programs of an attempt together with their writers."""
        return self.writers + self.programs

    def line(self) -> str:
        """One line of figures."""
        return (
            f"folders of several nodes: {self.attempts} attempts; killed: writers {self.writers}, all programs "
            f"{self.programs}; attempts that outlived their successor's start: {self.zombies}; commits: "
            f"{self.committed}; files compared: {self.compared}; mixed: 0, half: 0, lost: 0"
        )


def bytes_of(seed: str, rank: int, step: int) -> bytes:
    """The file of a node in a save, as torch.save would write it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr(zipfile.ZipInfo("archive/data.pkl"), random.Random(f"{seed} {rank} {step}").randbytes(BYTES))
    return data.getvalue()


class _KilledError(Exception):
    """The programs have been killed."""


@dataclass
class Training:
    """One training on `count` nodes below `place`. BrokenError if something does not hold."""

    place: Path
    seed: str
    count: int
    tally: Tally
    _attempt: int = 0
    _said: int = 0  # the newest step that a writer has called committed
    _roots: list[Path] = field(default_factory=list)
    _old: Nodes | None = None

    def __post_init__(self) -> None:
        self._chance = random.Random(f"folders {self.seed}")

    def run(self, kills: int) -> None:
        """Attempts until so many kills are done, and one that is complete."""
        until = self.tally.kills + kills
        try:
            while self.tally.kills < until:
                self._one()
            self._complete()
        finally:
            self._end_old()

    def _begin(self) -> Nodes:
        self._attempt += 1
        self.tally.attempts += 1
        if self._old is not None or not self._roots or self._chance.random() < 0.5:
            if self._old is None:
                for root in self._roots:
                    shutil.rmtree(root, ignore_errors=True)  # a node that was killed at once has made none
            self._roots = [self.place / f"outputs-{self._attempt}-{rank}" for rank in range(self.count)]
        return Nodes(self.place, self._attempt, self._roots)

    def _one(self) -> None:
        nodes = self._begin()
        is_kept = False
        try:
            step = self._resumed(nodes)
            if not self._said:  # the first commit waits long for nodes that it does not know
                self._kill_at = float("inf")
                step += STEPS
                self._save(nodes, step, kills=False)
                nodes.wait_for_commit(f"step-{step}")
            self._kill_at = time.monotonic() + self._chance.uniform(0, 16)
            try:
                while True:
                    self._zombie_saves()
                    step += STEPS
                    self._save(nodes, step)
                    self._wait(self._chance.choice([0.0, 3.0, 7.0, 7.0]))
            except _KilledError:
                self.tally.programs += 1
            self._end_old()
            is_kept = self._chance.random() < 0.2
        finally:
            if not is_kept:
                self._kill(nodes)
            self._hear(nodes)
        if is_kept:
            self.tally.zombies += 1
            self._old, self._old_roots, self._old_step = nodes, self._roots, step

    def _complete(self) -> None:
        self._end_old()
        nodes = self._begin()
        with nodes:
            step = self._resumed(nodes) + STEPS
            self._kill_at = float("inf")
            self._save(nodes, step, kills=False)
            if nodes.finish() != ["done"] * self.count or nodes[0].verdict.result != "completed":
                raise BrokenError(f"the last attempt has not ended well: {nodes[0].errors.read_text()}")
            self._hear(nodes)
            if self._said != step:
                raise BrokenError(f"step {step} is the last one, and {self._said} is committed")

    # The programs.

    def _save(self, nodes: Nodes, step: int, *, kills: bool = True) -> None:
        ranks = list(range(self.count))
        self._chance.shuffle(ranks)
        for rank in ranks:
            root, data = self._roots[rank], bytes_of(self.seed, rank, step)
            path = root / f"step-{step}" / f"rank-{rank}.pt"
            path.parent.mkdir()
            with path.open("wb", buffering=0) as file:
                for number in range(PIECES):
                    file.write(data[number * len(data) // PIECES : (number + 1) * len(data) // PIECES])
                    self._wait(self._chance.choice([0.0, 0.0, 0.2]))
            self._wait(self._chance.choice([0.0, 0.0, 0.5, 3.0]))
            if kills and self._chance.random() < 0.15:
                victim = nodes[self._chance.randrange(self.count)]
                victim.again()
                self.tally.writers += 1
        for root in self._roots:
            shutil.rmtree(root / f"step-{step - 3 * STEPS}", ignore_errors=True)

    def _wait(self, seconds: float) -> None:
        """The program does something else for so long."""
        left = self._kill_at - time.monotonic()
        if left <= seconds:
            time.sleep(max(0.0, left))
            raise _KilledError
        time.sleep(seconds)

    # What must hold.

    def _resumed(self, nodes: Nodes) -> int:
        """The step that all nodes find, which must be whole."""
        told = nodes.are_ready()
        newest = {max([0, *(int(p.name.partition("-")[2]) for p in root.glob("step-*"))]) for root in self._roots}
        if len(newest) != 1:
            raise BrokenError(f"the nodes go on from different steps: {sorted(newest)}")
        (step,) = newest
        names = {Path(one).name for one in told}
        if names != {f"step-{step}" if step else ""}:
            raise BrokenError(f"the writers tell {names}, and the newest step is {step}")
        if step < self._said:
            raise BrokenError(f"step {self._said} was committed, and the nodes go on from {step}")
        for rank, root in enumerate(self._roots):
            found = content(root)
            if missing := [one for one in range(self.count) if step and f"step-{step}/rank-{one}.pt" not in found]:
                raise BrokenError(f"node {rank} has half of step {step}: without the files of the nodes {missing}")
            for path, data in found.items():
                match = re.fullmatch(r"step-(\d+)/rank-(\d+)\.pt", path)
                if match is None or data != bytes_of(self.seed, int(match[2]), int(match[1])):
                    raise BrokenError(f"node {rank} has wrong bytes in {path}")
                self.tally.compared += 1
        return step

    def _hear(self, nodes: Nodes) -> None:
        """Note what node 0 has called committed."""
        steps = [int(one) for one in _SAVED.findall(nodes[0].errors.read_text())]
        self._said = max([self._said, *(step for step in steps if step < LATER)])
        self.tally.committed += len(steps)

    def _zombie_saves(self) -> None:
        """The attempt before this one has not heard that this one has begun, and its programs save."""
        if self._old is None:
            return
        step = self._old_step + LATER
        for rank, root in enumerate(self._old_roots):
            path = root / f"step-{step}" / f"rank-{rank}.pt"
            if not path.exists():
                path.parent.mkdir(parents=True)
                path.write_bytes(bytes_of(self.seed, rank, step))

    def _end_old(self) -> None:
        old, self._old = self._old, None
        if old is not None:
            self._kill(old)
            for root in self._old_roots:
                shutil.rmtree(root, ignore_errors=True)

    def _kill(self, nodes: Nodes) -> None:
        for node in nodes.nodes:
            node.kill()


def run_folders(place: Path, kills: int, seed: int, tally: Tally) -> None:
    """Trainings on 2 to 4 nodes, with so many kills in all. BrokenError if something does not hold."""
    chance = random.Random(f"folders of {seed}")
    until = tally.kills + kills
    number = 0
    while tally.kills < until:
        number += 1
        home = place / f"folders-{number}"
        home.mkdir()
        training = Training(home, f"{seed} {number}", chance.choice([2, 2, 3, 4]), tally)
        training.run(min(20, until - tally.kills))
        shutil.rmtree(home)
