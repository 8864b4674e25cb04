"""How much of a simulated job's work is safe."""

from dataclasses import dataclass
from datetime import timedelta

from holdfast_cli.simulate.durations import ZERO


@dataclass(slots=True)
class Storage:
    """The job's checkpoints: how many steps are safe, and how the program saves.

    It saves every `every` steps of an attempt, or in every `period` of time if that is set; if neither is, each step is
    safe at once. `unlucky`: each interruption comes just before a commit, so that it costs all steps since the last
    one, or all that the attempt has done.
    """

    goal: int
    every: int = 0
    unlucky: bool = False
    step: int = 0
    period: timedelta = ZERO

    def safe(self, base: int, step: int, pace: timedelta) -> int:
        """The safe step of an attempt that resumed from `base`, has come to `step`, and takes `pace` for each."""
        every = max(self.period // pace, 1) if self.period else self.every
        if not every:
            return step
        if self.unlucky:
            return max(base, step - every)
        return step - (step - base) % every
