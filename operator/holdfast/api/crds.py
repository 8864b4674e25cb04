"""The CustomResourceDefinitions, generated from the models.

python -m holdfast.api.crds crds            write the files
python -m holdfast.api.crds --check crds    fail, and show the difference, if a file is out of date
"""

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
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

_REMEDY: Final = "Run `python -m holdfast.api.crds crds` and commit the result."
_HEADER: Final = "# Generated from operator/holdfast/api by `python -m holdfast.api.crds crds`. Do not edit.\n"


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


def differences(folder: Path) -> str:
    """A unified diff from the files in `folder` to the generated ones; empty if they are equal."""
    lines: list[str] = []
    wanted = files()
    for name in sorted(wanted.keys() | {path.name for path in folder.glob("*.yaml")}):
        path = folder / name
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        lines += difflib.unified_diff(
            found.splitlines(keepends=True), wanted.get(name, "").splitlines(keepends=True), str(path), "generated"
        )
    return "".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files; the exit code is 1 if a check finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.api.crds", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a file is out of date")
    parser.add_argument("folder", type=Path, help="folder of the YAML files")
    options = parser.parse_args(arguments)
    if options.check:
        difference = differences(options.folder)
        if difference:
            sys.stderr.write(f"{difference}\nThe CRDs differ from the models. {_REMEDY}\n")
        return 1 if difference else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (options.folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
