"""What the demo does to the job, and when: the job's progress decides, never time. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.core.capacity.knowledge import pace_now
from holdfast_local.demo.stories import ONE_NODE, Blow, Scene

NOTICE = timedelta(seconds=45)  # clouds give 30 s to 2 min
STEPS_BEFORE = 80  # steps that an attempt trains before its node is taken


@dataclass(frozen=True, slots=True)
class Struck:
    """A scene that was played: its attempt and node, the step at that time, and the newest checkpoint at that time."""

    scene: Scene
    attempt: int
    node: str
    step: int
    saved: int


@dataclass(slots=True)
class Script:
    """The scenes, and which of them were played."""

    scenes: Sequence[Scene] = ONE_NODE.scenes
    played: list[Struck] = field(default_factory=list)

    @property
    def next_scene(self) -> Scene | None:
        """The scene that has not been played yet, or None."""
        return self.scenes[len(self.played)] if len(self.played) < len(self.scenes) else None

    def due(self, job: TrainingJob, nodes: Mapping[int, str]) -> Struck | None:
        """The scene to play now, or None. The caller calls `record` and strikes the node.

        `nodes`: the node of each rank of the current attempt.
        """
        scene, attempt, saved = self.next_scene, job.status.current, job.status.checkpoint
        if scene is None or attempt is None or saved is None or saved.step is None or not self._is_new(attempt):
            return None
        node = nodes.get(scene.rank)
        start, step = attempt.first_step, job.status.progress.step
        # Before its own first step, step and checkpoint belong to the previous attempt.
        if (
            attempt.state is not AttemptState.RUNNING
            or attempt.tier.name != scene.tier
            or node is None
            or start is None
        ):
            return None
        # It has trained and saved here; a crash must lose a few steps after the save.
        beyond = step > saved.step if scene.blow is Blow.CRASH else True
        if saved.step > start and step >= start + STEPS_BEFORE and beyond:
            return Struck(scene, attempt.number, node, step, saved.step)
        return None

    def deadline(self, struck: Struck, job: TrainingJob, now: datetime) -> datetime | None:
        """The job's new deadline with this scene, None if its deadline stays."""
        pace = pace_now(job.status.current) if job.status.current else None
        if struck.scene.slack is None or pace is None or job.spec.goal.steps is None:
            return None
        return now + (job.spec.goal.steps - struck.step) * pace + struck.scene.slack

    def record(self, struck: Struck) -> None:
        """Note that the scene was played."""
        self.played.append(struck)

    def _is_new(self, attempt: Attempt) -> bool:
        return not self.played or attempt.number > self.played[-1].attempt
