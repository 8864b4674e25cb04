"""Steps lost: over any history of a job, the books say how many steps were trained twice."""

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.decisions.snapshots import at, attempt, ended, job, pod, report, snapshot, status, tier, verdict

from holdfast.api.status import TrainingJobStatus
from holdfast.core.decide import decide

ENDS = ("SavedAndLeft", "Killed", "Suspended")


@dataclass(frozen=True)
class Run:
    """One attempt of the program: how far back it resumes, how many steps it trains, and what happens beside it."""

    back: int  # which saved checkpoint it resumes from, counted from the newest; more than there are is the start
    steps: int
    saved: int  # steps before its end at which it saved last
    told: bool = True  # its reports reach the operator; one that trains always tells it
    reason: str = "Killed"
    tier: str = "spot"
    lost_successor: bool = False  # its successor waits at the fence, and is lost before it


@dataclass
class World:
    """What happens to a job, counted here step by step, and the status that the operator keeps of it."""

    status: TrainingJobStatus = field(default_factory=status)
    saved: list[int] = field(default_factory=lambda: [0])
    trained: Counter[int] = field(default_factory=Counter)
    last_on: dict[int, str] = field(default_factory=dict)  # step -> tier
    number: int = 0
    where: int = 0

    def live(self, run: Run) -> None:
        """One attempt, from its start to its end."""
        self.number += 1
        mine = self.number
        del self.saved[max(len(self.saved) - run.back, 1) :]  # those after it were corrupt, or left behind on a branch
        resumed = self.saved[-1]
        self.where = resumed + run.steps
        self.trained.update(range(resumed + 1, self.where + 1))
        self.last_on |= dict.fromkeys(range(resumed + 1, self.where + 1), run.tier)
        self.saved.append(max(self.where - run.saved, resumed))
        reports = []
        self._decide(pod(mine), current=attempt(mine, fenced=True, tier=tier(run.tier)), attempt=mine)
        if run.told or run.steps:
            told = {"resumed_step": resumed or None, "step": resumed}
            reports = [report(mine, **told)]
            self._decide(pod(mine), reports=reports)
            if run.steps:
                told |= {"step": self.where, "step_at": at(-1), "first_step": resumed + 1, "first_step_at": at(-400)}
                reports = [report(mine, **told)]
                self._decide(pod(mine), reports=reports)
        if run.lost_successor:
            self.number += 1
            follower = attempt(self.number, predecessor=mine, scheduled_at=at(-60))
            gone = ended(self.number, 137, node="n2")
            self._decide(pod(mine), gone, reports=reports, successor=follower, attempt=self.number)
        words = verdict("drained", run.reason, step=self.where)
        self._decide(ended(mine, 0, words, deleted_at=at(0)), reports=reports)
        self.status = self.status.model_copy(update={"fruitless_attempts": 0, "phase": None})

    def _decide(self, *pods, reports=(), **changes) -> None:
        """Let the operator decide until nothing is left to do."""
        given = job(self.status.model_copy(update=changes))
        self.status = decide(snapshot(given, *pods, reports=reports)).status

    @property
    def trained_twice(self) -> int:
        """How many steps were trained again, each as often as it was."""
        return sum(times - 1 for times in self.trained.values())


@st.composite
def runs(draw):
    """An attempt that may do anything that programs do."""
    steps = draw(st.integers(0, 30) | st.just(0))
    return Run(
        back=draw(st.integers(0, 3)),
        steps=steps,
        saved=draw(st.integers(0, steps)),
        told=draw(st.booleans()),
        tier=draw(st.sampled_from(("spot", "dedicated"))),
        reason=draw(st.sampled_from(ENDS)),
        lost_successor=draw(st.booleans()),
    )


TRAINS = Run(back=0, steps=9, saved=2)
NO_STEP = Run(back=0, steps=0, saved=0)
GOES_BACK = Run(back=2, steps=3, saved=1)


# Breaks if an interruption is settled with the steps of another one, twice, or not at all.
@settings(max_examples=40)
@given(st.lists(runs(), min_size=2, max_size=7))
@example([TRAINS, NO_STEP])
@example([TRAINS, replace(TRAINS, tier="dedicated"), GOES_BACK])
@example([TRAINS, NO_STEP, GOES_BACK])
@example([TRAINS, replace(TRAINS, lost_successor=True), GOES_BACK])
def test_the_books_count_each_step_that_was_trained_twice(history):
    world = World()
    for run in history:
        world.live(run)
    useful = Counter(tier for step, tier in world.last_on.items() if step <= world.saved[-1])
    world.live(Run(back=0, steps=300, saved=0))  # it trains all that was lost
    assert world.status.ledger.steps_lost == world.trained_twice
    by_tier = {one.tier: one.steps_trained - one.steps_lost for one in world.status.ledger.by_tier if one.attempts}
    by_tier["spot"] -= 300
    assert Counter(by_tier) == useful
