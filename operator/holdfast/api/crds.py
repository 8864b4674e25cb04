"""The CustomResourceDefinitions, generated from the models. `make crds` writes them into files."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from holdfast.api.job import TrainingJobSpec
from holdfast.api.names import GROUP, JOB_KIND, JOB_PLURAL, PROFILE_KIND, PROFILE_PLURAL, VERSION
from holdfast.api.objects import JOB_COLUMNS, CapacityProfile, TrainingJob
from holdfast.api.profile import CapacityProfileSpec, CapacityProfileStatus
from holdfast.api.rules import validations
from holdfast.api.schema import structural
from holdfast.api.status import TrainingJobStatus

Manifest = dict[str, Any]

_HEADER: Final = "# Generated from operator/holdfast/api by `make crds`. Do not edit.\n"


class _Plain(yaml.SafeDumper):
    """Writes equal parts in full, where PyYAML would write an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def manifests() -> list[Manifest]:
    """Both CRDs, ready to be applied."""
    return [_trainingjobs(), _capacityprofiles()]


def files() -> dict[str, str]:
    """File name -> YAML text of each CRD."""
    return {
        f"{GROUP}_{manifest['spec']['names']['plural']}.yaml": _HEADER
        + yaml.dump(manifest, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
        for manifest in manifests()
    }


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False, about: str = "") -> Manifest:
    column: Manifest = {"name": name, "type": kind, "jsonPath": path}
    if kind == "integer":
        column["format"] = "int64"
    if about:
        column["description"] = about
    if wide:
        column["priority"] = 1
    return column


def _trainingjobs() -> Manifest:
    columns = [_column(one.name, one.path, one.kind, wide=one.wide, about=one.about) for one in JOB_COLUMNS if one.path]
    properties = {
        "spec": {**structural(TrainingJobSpec), "description": " ".join((TrainingJobSpec.__doc__ or "").split())},
        "status": structural(TrainingJobStatus, defaults=False),
    }
    version = _version(TrainingJob, properties, columns)
    return _definition("Namespaced", JOB_KIND, JOB_PLURAL, ["tj"], version)


def _capacityprofiles() -> Manifest:
    columns = [
        _column("First", ".spec.tiers[0].name", about="First tier"),
        _column("Age", ".metadata.creationTimestamp", "date"),
        _column("Up", ".status.up", wide=True, about="Tiers that gave a node when last observed"),
        _column("Out", ".status.out", wide=True, about="Tiers that took a node back or gave none"),
        _column("Seen", ".status.seenAt", "date", wide=True, about="Time since a tier was observed"),
    ]
    properties = {
        "spec": structural(CapacityProfileSpec),
        "status": structural(CapacityProfileStatus, defaults=False),
    }
    version = _version(CapacityProfile, properties, columns)
    return _definition("Cluster", PROFILE_KIND, PROFILE_PLURAL, ["capprof"], version)


def _version(
    model: type[TrainingJob | CapacityProfile], properties: Mapping[str, Any], columns: list[Manifest]
) -> Manifest:
    root = {
        "type": "object",
        "description": " ".join((model.__doc__ or "").split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
            "kind": {"type": "string", "description": model.__name__},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            **properties,
        },
        **validations(model.rules),
    }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": root},
    }


def _definition(scope: str, kind: str, plural: str, short: list[str], version: Manifest) -> Manifest:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short,
                "categories": ["training"],
            },
            "versions": [version],
        },
    }
