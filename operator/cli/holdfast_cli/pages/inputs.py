"""What a page of one job is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.api.objects import TrainingJob
from holdfast_cli.checkpoints.survey import Prefix, Row
from holdfast_cli.cluster.job_api import Line
from holdfast_cli.why.reasons import Reasons
from holdfast_train.series.history import History


@dataclass(frozen=True)
class JobInputs:
    """Everything that is known of a job at `now`. None stands for what was not read; `notes` say why, in words."""

    job: TrainingJob | None
    """None if only its storage is known."""
    now: datetime
    events: Sequence[Line] | None = None
    """Oldest first."""
    history: History | None = None
    checkpoints: tuple[Prefix, Sequence[Row]] | None = None
    """What `holdfast checkpoints list` shows."""
    evidence: Sequence[Mapping[str, Any]] | None = None
    """Of hangs: a document for each node of each attempt, by attempt."""
    reasons: Reasons | None = None
    """What `holdfast why` shows."""
    notes: Sequence[str] = ()
    place: str = ""
    """The address of the storage, if it was read."""

    @property
    def name(self) -> str:
        """`namespace/name` of the job; without one, the address of the storage."""
        if self.job is not None:
            return f"{self.job.metadata.namespace}/{self.job.metadata.name}"
        owner = self.checkpoints[0].state.owner if self.checkpoints else None
        return f"{owner.namespace}/{owner.job}" if owner else self.place
