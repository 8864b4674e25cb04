"""Trials: each is one attempt of a job, which resumes, trains, saves, and is killed at a point that a seed chooses.

A job is some trials on one prefix, with one attempt after the other, and at the end one that completes. A trial names a
phase and a victim. The kill comes when the phase has begun, after a random part of the time that it usually takes; what
counts is the phase that the victim was really in when it died. A writer may outlive its trainer, and the next attempt
does not always wait for it.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.trainer.stores import environment, variables
from tests.torture.chain import BrokenError, Chain
from tests.torture.phases import PHASES, Slot
from tests.torture.server import Ended, ForkServer
from tests.torture.trainer import ORPHAN_SECONDS

from holdfast_protocol.settings import Every, Keep
from holdfast_train.storage.opening import open_retrying

TRAINERS: Final = ("restore", "start")  # phases in which there is no writer yet
WRITERS: Final = ("upload", "commit", "sweep")
POLL: Final = 0.0002  # seconds; the shortest phases take a millisecond
PATIENCE: Final = 4.0  # seconds until a trial is killed wherever it is
LONGEST: Final = 120.0  # seconds for anything that must come to an end
SPARE: Final = 1.5  # seconds beyond which a time of a store is too old, which may count whole seconds
KEEP: Final = 2


@dataclass(frozen=True)
class Place:
    """Where the checkpoints of a job go: `uri`, and the `variables` of its pods. `part`: bytes of one object.

    `unfinished` lists what a dead writer left there that no reader can see.
    """

    uri: str
    variables: dict[str, str]
    part: int
    unfinished: Callable[[], list[str]]


@dataclass(frozen=True)
class Plan:
    """Kill `victim` in the phase `target`, not before that was begun `skip` times, at `late` (0 to 1) of its length.

    `alone`: the next attempt waits until the writers of this one have ended. `frozen`: where only the trainer is
    killed, its writer is stopped with it, and goes on in the middle of the next trial.
    """

    victim: str
    target: str
    skip: int
    late: float
    alone: bool
    frozen: bool


@dataclass
class Tally:
    """What came of the trials: kills by victim and phase, and commits."""

    trials: int = 0
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    acknowledged: int = 0
    committed: int = 0
    restored: int = 0
    compared: int = 0
    zombies: int = 0
    fenced: int = 0
    lengths: dict[str, list[float]] = field(default_factory=lambda: {phase: [0.0, 0.0] for phase in PHASES})

    def length(self, phase: str) -> float:
        """Seconds that `phase` has taken so far, in the mean."""
        count, seconds = self.lengths[phase]
        return seconds / count if count else 0.005

    def line(self) -> str:
        """One line of figures."""
        phases = Counter[str]()
        victims = Counter[str]()
        for (victim, phase), count in self.kills.items():
            phases[phase] += count
            victims[victim] += count
        return (
            f"{self.trials} trials; killed: {_listed(victims)}; in: {_listed(phases)}; writers that outlived their "
            f"trainer into the next attempt: {self.zombies}, fenced out: {self.fenced}; commits: {self.committed}, "
            f"acknowledged: {self.acknowledged}; restored: {self.restored}, compared: {self.compared}; lost: 0"
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def plans(seed: int, job: int, count: int) -> list[Plan]:
    """The trials of a job, always the same for the same numbers: each target in turn, the rest drawn."""
    draw = random.Random(f"torture {seed} {job}")
    targets = ["restore", "capture", "upload", "commit", "sweep", "any", "upload", "start", "capture", "commit"]
    draw.shuffle(targets)
    made = []
    for number in range(count):
        target = targets[number % len(targets)]
        victims = ("trainer",) if target in TRAINERS else ("trainer", "writer", "both")
        made.append(
            Plan(
                victim=draw.choice(victims),
                target=target,
                skip=0 if target in TRAINERS else draw.randrange(3),
                late=draw.random(),
                alone=draw.random() < 0.5,
                frozen=draw.random() < 0.5,
            )
        )
    return made


def run_job(
    server: ForkServer,
    place: Place,
    todo: list[Plan],
    *,
    seed: str,
    folder: Path,
    tally: Tally,
    done: Callable[[], object] = lambda: None,
) -> None:
    """Do the trials `todo` on a new prefix, then complete its training. BrokenError if something does not hold."""
    job = _Job(server, place, seed, folder, tally)
    for plan in todo:
        try:
            job.trial(plan)
        except (BrokenError, TimeoutError) as error:
            raise BrokenError(f"trial {job.number} ({plan}): {error}; its output: {job.output}") from error
        done()
    try:
        job.complete()
    except (BrokenError, TimeoutError) as error:
        raise BrokenError(f"the run to the end after {job.number - 1} trials: {error}; {job.output}") from error


@dataclass
class _Process:
    pid: int
    trial: int
    slot: Slot
    code: int | None = None


class _Job:
    def __init__(self, server: ForkServer, place: Place, seed: str, folder: Path, tally: Tally) -> None:
        self._server, self._place, self._seed = server, place, seed
        self._folder, self._tally = folder, tally
        self.number = 0
        self._trainers: dict[int, _Process] = {}  # by trial
        self._writers: list[_Process] = []
        self._frozen: list[_Process] = []
        self._saved: Counter[int] = Counter()
        self._acknowledged: list[str] = []
        self._resumed: list[dict[str, Any]] = []
        where = environment(place.uri, 1, **place.variables)
        self._chain = Chain(open_retrying(where, place.uri), seed)

    @property
    def output(self) -> Path:
        return self._folder / f"{self.number}.txt"

    # One trial.

    def trial(self, plan: Plan) -> None:
        self._start(goal=None)
        trainer = self._trainer
        victims = self._wait_for_kill(plan)
        self._server.kill([process.pid for process in victims])
        if plan.frozen and plan.victim == "trainer":
            self._frozen = self._mine()
            self._server.kill([writer.pid for writer in self._frozen], signal.SIGSTOP)
        for process in victims:
            self._wait_until(lambda: process.code is not None, f"process {process.pid} to die")  # noqa: B023
        self._count(plan, victims)
        if trainer not in victims:
            saved = self._saved[self.number]
            self._wait_until(lambda: self._saved[self.number] > saved, "a commit after the writer's death")
            self._server.kill([trainer.pid], signal.SIGTERM)
        self._wait_until(lambda: trainer.code is not None, "the trainer to end")
        if trainer.code not in (0, -signal.SIGKILL):
            raise BrokenError(f"the trainer has ended with {trainer.code}")
        if plan.alone and not self._frozen:
            self._wait_for_writers()
        self._check()
        self._tally.trials += 1

    def complete(self) -> None:
        """One attempt that nobody disturbs, until its training is complete. Then nothing is left of all the others."""
        self._wait_for_writers()
        ended = time.monotonic()
        wait = ORPHAN_SECONDS + SPARE
        self._wait_until(lambda: time.monotonic() > ended + wait, "what was left to be old enough")
        self._check()
        newest = self._chain.state.commits[-1].step if self._chain.state.commits else 0
        self._start(goal=newest + 3)
        self._wait_until(lambda: self._trainer.code is not None, "the last attempt to end")
        if self._trainer.code != 0:
            raise BrokenError(f"the last attempt has ended with {self._trainer.code}")
        self._wait_for_writers()
        self._check()
        self._chain.check_end()
        if left := self._place.unfinished():
            raise BrokenError(f"{len(left)} unfinished things are left, such as {left[0]}")
        if self._chain.state.complete != newest + 3:
            raise BrokenError(f"training is complete at step {self._chain.state.complete}, not {newest + 3}")
        self._tally.committed += len(self._chain.committed)
        self._tally.compared += self._chain.compared

    def _start(self, goal: int | None) -> None:
        self.number += 1
        self._tally.zombies += any(writer.code is None for writer in self._writers)
        more = {
            **self._place.variables,
            "every": Every(1),
            "keep": Keep(KEEP),
        }
        self._server.train(
            {
                "trial": self.number,
                "attempt": self.number,
                "seed": self._seed,
                "uri": self._place.uri,
                "variables": variables(self._place.uri, self.number, **more),
                "part": self._place.part,
                "goal": goal,
                "output": str(self.output),
            }
        )
        self._wait_until(lambda: self.number in self._trainers, "a trainer")

    @property
    def _trainer(self) -> _Process:
        return self._trainers[self.number]

    def _mine(self) -> list[_Process]:
        """The writers of this trial that live."""
        return [writer for writer in self._writers if writer.trial == self.number and writer.code is None]

    def _wait_for_kill(self, plan: Plan) -> list[_Process]:
        begun = time.monotonic()
        late = 0.0 if plan.target == "any" else plan.late * self._tally.length(plan.target)
        delay = plan.late * self._whole() if plan.target == "any" else 0.0

        def due() -> bool:
            if self._trainer.code is not None:
                raise BrokenError(f"the trainer has ended by itself with {self._trainer.code}")
            if plan.victim == "writer" and not self._mine():
                return False
            passed = time.monotonic() - begun
            if plan.target == "any":
                return passed >= delay
            among = self._mine() if plan.target in WRITERS else [self._trainer]
            return passed > PATIENCE or any(
                process.slot.phase == plan.target and process.slot.begun(plan.target) > plan.skip for process in among
            )

        self._wait_until(due, f"the time to kill ({plan})")
        self._thaw()
        end = time.monotonic() + late
        self._wait_until(lambda: time.monotonic() >= end, "the random part of the phase")
        return {"trainer": [self._trainer], "writer": self._mine()[-1:], "both": [self._trainer, *self._mine()]}[
            plan.victim
        ]

    def _whole(self) -> float:
        """About what a trial takes, from its start through a few saves."""
        length = self._tally.length
        return length("start") + length("restore") + 3 * (length("upload") + length("commit") + length("sweep"))

    def _count(self, plan: Plan, victims: list[_Process]) -> None:
        """In which phase did it die? Of two victims, the one that had more to do."""
        phases = [process.slot.phase for process in victims]
        order = ("sweep", "commit", "restore", "capture", "upload", "start", "training", "idle")
        self._tally.kills[plan.victim, min(phases, key=order.index)] += 1
        for process in (self._trainer, *self._mine(), *victims):
            for phase in PHASES:
                count, seconds = process.slot.ended(phase)
                self._tally.lengths[phase][0] += count
                self._tally.lengths[phase][1] += seconds

    # What holds.

    def _check(self) -> None:
        self._hear()
        self._chain.read()
        for uri in self._acknowledged:
            self._chain.check_acknowledged(uri)
        for report in self._resumed:
            self._chain.check_restored(report["uri"], report["note"], report["fence"])
        self._tally.acknowledged += len(self._acknowledged)
        self._tally.restored += sum(report["uri"] is not None for report in self._resumed)
        self._acknowledged, self._resumed = [], []
        self._chain.check_live()

    def _hear(self) -> None:
        for report in self._server.reports():
            if report["what"] == "wrong":
                raise BrokenError(f"step {report['step']} was restored as something else: {report['text']}")
            if report["what"] == "saved":
                self._saved[report["trial"]] += 1
                self._acknowledged.append(report["uri"])
            elif report["what"] == "fenced":
                self._tally.fenced += 1
            else:
                self._resumed.append(report)

    # Processes.

    def _thaw(self) -> None:
        self._server.kill([writer.pid for writer in self._frozen], signal.SIGCONT)
        self._frozen = []

    def _wait_for_writers(self) -> None:
        self._thaw()
        self._wait_until(lambda: all(writer.code is not None for writer in self._writers), "the writers to end")
        for writer in self._writers:
            if writer.code not in (0, -signal.SIGKILL):
                raise BrokenError(f"the writer of trial {writer.trial} has ended with {writer.code}")

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LONGEST
        while True:
            self._follow()
            if condition():
                return
            if time.monotonic() > end:
                raise TimeoutError(f"timed out after {LONGEST:g} s waiting for {what}")
            time.sleep(POLL)

    def _follow(self) -> None:
        for event in self._server.events():
            if isinstance(event, Ended):
                for process in (*self._trainers.values(), *self._writers):
                    if process.pid == event.pid and process.code is None:
                        process.code = event.code
                continue
            process = _Process(event.pid, event.trial, self._server.board.slot(event.slot))
            if event.role == "trainer":
                self._trainers[event.trial] = process
            else:
                self._writers.append(process)
        self._hear()
