"""Complete objects as the API server returns them: metadata, spec, status."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError

from holdfast.api.job import TrainingJobSpec
from holdfast.api.model import Model
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

    # Pods are named {job}-{attempt}-{rank}: 40 characters leave space for both numbers in a label of 63.
    rules: ClassVar[tuple[Rule, ...]] = (label_rule("metadata.name", 40),)

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
