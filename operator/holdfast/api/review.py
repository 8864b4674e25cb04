"""Check a manifest as the API server would, as far as that is possible without a cluster."""

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from holdfast.api.crds import manifests
from holdfast.api.errors import SpecError
from holdfast.api.names import API_VERSION, JOB_KIND, PROFILE_KIND
from holdfast.api.objects import ApiObject, CapacityProfile, TrainingJob
from holdfast.api.schema import Schema

MODELS: Final[Mapping[str, type[ApiObject]]] = {JOB_KIND: TrainingJob, PROFILE_KIND: CapacityProfile}


def is_ours(raw: Mapping[str, Any]) -> bool:
    """True if the manifest is of a kind of Holdfast, in any version."""
    return str(raw.get("apiVersion", "")).partition("/")[0] == API_VERSION.partition("/")[0]


def review(raw: Mapping[str, Any]) -> tuple[SpecError, ...]:
    """Every problem of a Holdfast manifest: unknown fields first, then invalid values and broken rules."""
    kind = raw.get("kind")
    model = MODELS.get(str(kind))
    if model is None:
        return (SpecError("kind", kind, f"must be {' or '.join(MODELS)}"),)
    problems = list(unknown_fields(raw, _schemas()[str(kind)]))
    if raw.get("apiVersion") != API_VERSION:
        problems.append(SpecError("apiVersion", raw.get("apiVersion"), f"must be {API_VERSION}"))
    try:
        model.parse(named({**raw, "apiVersion": API_VERSION}))
    except SpecError as error:
        problems.extend(error.problems)
    return tuple(problems)


def unknown_fields(value: object, schema: Schema, path: str = "") -> Iterator[SpecError]:
    """Fields that the schema does not have (strict validation refuses them), and objects in the place of text."""
    match value:
        case Mapping() if schema.get("type") == "string":
            # Every is an object in Python, so its model would accept one.
            yield SpecError(path, dict(value), "must be a string")
        case Mapping() if "properties" in schema:
            known = schema["properties"]
            for name, item in value.items():
                place = f"{path}.{name}" if path else str(name)
                if name in known:
                    yield from unknown_fields(item, known[name], place)
                elif path != "metadata":
                    yield SpecError(place, None, "unknown field", _suggestion(str(name), known))
        case Mapping() if "additionalProperties" in schema:
            for name, item in value.items():
                yield from unknown_fields(item, schema["additionalProperties"], f"{path}.{name}")
        case list() if "items" in schema:
            for index, item in enumerate(value):
                yield from unknown_fields(item, schema["items"], f"{path}[{index}]")


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"allowed are {', '.join(sorted(known))}"


def named(raw: dict[str, Any]) -> dict[str, Any]:
    """The manifest with a name as the API server would make it from generateName."""
    metadata = raw.get("metadata")
    if isinstance(metadata, Mapping) and "name" not in metadata and isinstance(metadata.get("generateName"), str):
        return {**raw, "metadata": {**metadata, "name": f"{metadata['generateName']}xxxxx"}}
    return raw


@cache
def _schemas() -> dict[str, Schema]:
    return {
        manifest["spec"]["names"]["kind"]: manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for manifest in manifests()
    }
