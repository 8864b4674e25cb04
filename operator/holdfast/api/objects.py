"""Complete objects as the API server returns them: metadata, spec, status."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationError

from holdfast.api.job import TrainingJobSpec
from holdfast.api.model import Model
from holdfast.api.names import LONGEST_JOB_NAME
from holdfast.api.problems import spec_error
from holdfast.api.profile import CapacityProfileSpec, CapacityProfileStatus
from holdfast.api.rules import Rule
from holdfast.api.scalars import Time
from holdfast.api.status import TrainingJobStatus
from holdfast.api.strings import label_rule


class ObjectMeta(Model):
    """The part of an object's metadata that Holdfast reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()


class ApiObject(Model):
    """The base of both kinds."""

    metadata: ObjectMeta

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read an object. Raises SpecError, which names every invalid field."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise spec_error(error) from error


class TrainingJob(ApiObject):
    """A training that Holdfast runs on spot, dedicated or CPU nodes, through preemptions, until it is complete."""

    api_version: Literal["holdfast.dev/v1alpha1"] = "holdfast.dev/v1alpha1"
    kind: Literal["TrainingJob"] = "TrainingJob"
    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

    rules: ClassVar[tuple[Rule, ...]] = (label_rule("metadata.name", LONGEST_JOB_NAME),)

    @property
    def most_nodes(self) -> int:
        """The most nodes that one of its attempts has, or that the next one gets."""
        attempts = (self.status.current, self.status.successor)
        return max(self.spec.trainer.nodes, *(one.nodes for one in attempts if one is not None), 1)

    @classmethod
    def parse_next(cls, raw: Mapping[str, Any], before: "TrainingJob | None") -> Self:
        """Read the next version of a job. Raises SpecError as `parse` does.

        Most changes are changes of the status. Every change of the spec raises `generation`, so a spec of the same
        generation is not read again.
        """
        meta = raw["metadata"]
        if before and (before.metadata.uid, before.metadata.generation) == (meta["uid"], meta.get("generation")):
            raw = {**raw, "spec": before.spec}
        return cls.parse(raw)


class CapacityProfile(ApiObject):
    """A named list of capacity tiers that jobs may use. The platform team maintains it."""

    api_version: Literal["holdfast.dev/v1alpha1"] = "holdfast.dev/v1alpha1"
    kind: Literal["CapacityProfile"] = "CapacityProfile"
    spec: CapacityProfileSpec
    status: CapacityProfileStatus = CapacityProfileStatus()

    rules: ClassVar[tuple[Rule, ...]] = (label_rule("metadata.name", 63),)


@dataclass(frozen=True, slots=True)
class JobColumn:
    """A column in which kubectl, k9s, `holdfast watch` or the page of all jobs lists jobs.

    Each of them chooses which it shows, and how a cell looks; names, order, meaning and side are the same.
    `path`: of the value in the object, empty if no field has it. `wide`: kubectl shows it with `-o wide` alone.

    `number`: a terminal and a page write it at the right side.
    """

    name: str
    path: str
    kind: Literal["string", "integer", "date"] = "string"
    number: bool = False
    wide: bool = False
    about: str = ""


JOB_COLUMNS: Final = (
    JobColumn("Phase", ".status.phase"),
    JobColumn("Tier", ".status.tier"),
    JobColumn("Nodes", ".status.readyNodes", about="With several nodes: those that are ready, of all that are needed"),
    JobColumn("Step", ".status.progress.step", "integer", number=True),
    JobColumn("Percent", ".status.progress.percent", number=True),
    JobColumn("ETA", ".status.progress.eta", about="Expected end of the training, UTC"),
    JobColumn("Cost", ".status.ledger.spent", number=True, about="Money spent on nodes so far"),
    JobColumn("Expected", ".status.forecast.cost", number=True, about="Expected cost of the whole job"),
    JobColumn(
        "Savings", ".status.ledger.savedVersusDedicated", number=True, about="Money saved versus dedicated nodes"
    ),
    JobColumn("Slack", ".status.forecast.slack", about="Time that may be lost before the deadline is at risk"),
    JobColumn(
        "Interruptions",
        ".status.restarts.interruptions",
        "integer",
        number=True,
        about="Preemptions, evictions and lost nodes",
    ),
    JobColumn("Age", ".metadata.creationTimestamp", "date"),
    JobColumn("Loss", ".status.progress.loss", number=True, wide=True, about="Training loss"),
    JobColumn("Attempt", "", number=True),
    JobColumn(
        "Checkpoint",
        ".status.checkpoint.step",
        "integer",
        number=True,
        wide=True,
        about="Step of the newest checkpoint",
    ),
    JobColumn("Node", ".status.node", wide=True),
    JobColumn("Reason", ".status.reason", wide=True),
)
