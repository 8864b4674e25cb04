"""What the writer of a folder tells the launcher of the end of a program that knows nothing of Holdfast."""

from dataclasses import dataclass

from holdfast_protocol.rank_verdict import Result
from holdfast_train.environment import Environment
from holdfast_train.pod.rank_verdict import write_rank_verdict


@dataclass(frozen=True)
class Ended:
    """How the program of a node ended: its exit code, None after a signal; and when it was told to leave, if it was."""

    code: int | None
    signalled_at: float | None

    @property
    def has_failed(self) -> bool:
        """True if it has failed by itself."""
        return self.code != 0 and self.signalled_at is None


@dataclass(frozen=True)
class FolderVerdict:
    """How the program ended, and what of it is saved. With several nodes each launcher gets the same one."""

    result: Result
    message: str = ""
    reason: str = ""
    step: int | None = None
    saved_step: int | None = None

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
