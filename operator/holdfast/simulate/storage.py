"""How much of a simulated job's work is safe."""

from dataclasses import dataclass


@dataclass(slots=True)
class Storage:
    """The job's checkpoints: how many steps are safe, and how the program saves.

    It saves every `every` steps of an attempt; 0 means that each step is safe at once. `unlucky`: each loss comes just
    before a commit, so that it costs `every` steps, or all that the attempt has done.
    """

    goal: int
    every: int = 0  # 0: each step is safe at once
    unlucky: bool = False
    step: int = 0

    def safe(self, base: int, step: int) -> int:
        """The safe step of an attempt that resumed from `base` and has come to `step`."""
        if not self.every:
            return step
        if self.unlucky:
            return max(base, step - self.every)
        return step - (step - base) % self.every
