"""What of a simulated job's work is safe."""

from dataclasses import dataclass


@dataclass(slots=True)
class Storage:
    """Where the job's checkpoints lie: how far its work is safe, in steps, and how its program saves.

    It saves every `every` steps of an attempt. `unlucky`: losses come just before a commit, so that each costs `every`
    steps, or all that the attempt has done.
    """

    goal: int
    every: int = 0  # 0: each step is safe at once
    unlucky: bool = False
    step: int = 0

    def safe(self, base: int, step: int) -> int:
        """What is safe of an attempt that went on from `base` and has come to `step`."""
        if not self.every:
            return step
        if self.unlucky:
            return max(base, step - self.every)
        return step - (step - base) % self.every
