"""Whole objects as the API server gives them: metadata, spec, status."""

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
    """What every object of Holdfast shares."""

    metadata: ObjectMeta

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read an object; SpecError, which names every bad field, if it is not what its schema says."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise spec_error(error) from error


class TrainingJob(ApiObject):
    """A training that Holdfast keeps alive: on spot, dedicated or CPU nodes, through preemptions, until it is done."""

    api_version: Literal["holdfast.dev/v1alpha1"] = "holdfast.dev/v1alpha1"
    kind: Literal["TrainingJob"] = "TrainingJob"
    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

    # Pods are named {job}-{attempt}-{rank}: 40 characters leave room for both numbers in a label of 63.
    rules: ClassVar[tuple[Rule, ...]] = (label_rule("metadata.name", 40),)

    @classmethod
    def parse_next(cls, raw: Mapping[str, Any], before: "TrainingJob | None") -> Self:
        """Read the next version of a job; SpecError as `parse`.

        Most changes are of the status. The API server counts `generation` up with every change of the spec, so that a
        spec of the same generation is not read again.
        """
        meta = raw["metadata"]
        if before and (before.metadata.uid, before.metadata.generation) == (meta["uid"], meta.get("generation")):
            raw = {**raw, "spec": before.spec}
        return cls.parse(raw)


class CapacityProfile(ApiObject):
    """A named grid of capacity tiers that jobs may use, kept by the platform's owners."""

    api_version: Literal["holdfast.dev/v1alpha1"] = "holdfast.dev/v1alpha1"
    kind: Literal["CapacityProfile"] = "CapacityProfile"
    spec: CapacityProfileSpec
    status: CapacityProfileStatus = CapacityProfileStatus()

    rules: ClassVar[tuple[Rule, ...]] = (label_rule("metadata.name", 63),)
