"""The notes of a release: how it is installed, the images' digests, and the version's part of CHANGELOG.md."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final

from scripts.images.build import Built
from scripts.images.errors import BuildError
from scripts.setup import ROOT

CHANGELOG: Final = ROOT / "CHANGELOG.md"


def write_notes(version: str, images: Mapping[str, Built]) -> str:
    """The notes. BuildError if CHANGELOG.md has no part for the version."""
    template = Template(Path(__file__).with_name("notes.md").read_text(encoding="utf-8"))
    return template.substitute(
        version=version,
        operator_name=images["operator"].name,
        operator_repository=images["operator"].repository,
        operator_digest=images["operator"].digest,
        init_name=images["init"].name,
        init_repository=images["init"].repository,
        init_digest=images["init"].digest,
        digests="\n".join(f"| `{one.name}` | `{one.digest}` |" for one in images.values()),
        changes=changes(version, CHANGELOG.read_text(encoding="utf-8")),
    )


def changes(version: str, changelog: str) -> str:
    """What a changelog says of a version, without its heading. BuildError if it says nothing."""
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise BuildError(f"CHANGELOG.md has no heading `## {version}`: say there what the version brings")
    return found[1].strip()
