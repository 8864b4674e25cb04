"""What the demo does to the job, and when: the job's progress decides, never time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.core.capacity.knowledge import pace_now

NOTICE = timedelta(seconds=45)  # clouds give 30 s to 2 min
STEPS_BEFORE = 80  # steps that an attempt trains before its node is taken


class Blow(Enum):
    """How a node is lost."""

    RECLAIM = "reclaim"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Scene:
    """One loss. `title` and `after` are for people.

    With `slack` the deadline moves too: to `slack` after the time at which the work would be done without more losses.
    """

    blow: Blow
    tier: str
    title: str
    after: str
    slack: timedelta | None = None


SCENES = (
    Scene(Blow.RECLAIM, "spot", "the cloud reclaims the first spot node", "it saves and moves to the other spot node"),
    Scene(
        Blow.RECLAIM,
        "spot",
        "the deadline is moved up, the other spot node is reclaimed",
        "no time to wait for spot: it moves to dedicated",
        slack=timedelta(minutes=2),
    ),
    Scene(
        Blow.CRASH, "dedicated", "the dedicated node dies without notice", "it resumes on CPU from its last checkpoint"
    ),
)


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

    scenes: Sequence[Scene] = SCENES
    played: list[Struck] = field(default_factory=list)

    @property
    def next_scene(self) -> Scene | None:
        """The scene that has not been played yet, or None."""
        return self.scenes[len(self.played)] if len(self.played) < len(self.scenes) else None

    def due(self, job: TrainingJob) -> Struck | None:
        """The scene to play now, or None. The caller calls `record` and strikes the node."""
        scene, attempt, saved = self.next_scene, job.status.current, job.status.checkpoint
        if scene is None or attempt is None or saved is None or not self._is_new(attempt):
            return None
        node = attempt.pods[0].node if attempt.pods else None
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
