"""What the writer of a folder tells the launcher of the end of a program that knows nothing of Holdfast."""

from dataclasses import asdict, dataclass
from typing import Any

from holdfast_protocol.rank_verdict import Result
from holdfast_train.environment import Environment
from holdfast_train.pod.rank_verdict import write_rank_verdict


@dataclass(frozen=True)
class FolderVerdict:
    """How the program ended, and what of it is saved. With several nodes each launcher gets the same one."""

    result: Result
    message: str = ""
    reason: str = ""
    step: int | None = None
    saved_step: int | None = None

    @classmethod
    def of(cls, message: dict[str, Any]) -> "FolderVerdict":
        """The verdict that `as_message` gave. TypeError for another message."""
        return cls(**message)

    def as_message(self) -> dict[str, Any]:
        """For the writer of another node."""
        return asdict(self)

    def write(self, environment: Environment) -> None:
        """Leave it for the launcher."""
        write_rank_verdict(
            environment.verdict_folder,
            environment.node_rank,
            self.result,
            reason=self.reason,
            message=self.message,
            step=self.step,
            saved_step=self.saved_step,
        )
