"""`Purpose`: which command makes a job like the user's, and how its jobs are known again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Purpose:
    """`word`: what one such job is called. `label`: on each of them, with the name of the user's job as its value.

    `folder`: below the prefix of the user's job, the prefixes of all of them.
    """

    word: str
    label: str
    folder: str

    @property
    def infix(self) -> str:
        """Between the name of the user's job and what tells these jobs apart."""
        return f"-{self.word}-"
