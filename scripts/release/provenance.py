"""What a release was made of and by: an in-toto statement with SLSA's predicate of provenance, version 1. Unsigned."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.images import archive
from scripts.images.build import Built
from scripts.images.builder import ARCHIVE
from scripts.images.source import Source
from scripts.setup import ROOT

BUILD_TYPE: Final = "https://holdfast.dev/make-release/v1"


class Made(NamedTuple):
    """How a release was made. `repository` and `by` are addresses: of the source, and of what ran the build."""

    base: str
    python: str
    architectures: Sequence[str]
    repository: str
    by: str


def statement(made: Made, source: Source, images: Mapping[str, Built], subjects: Mapping[str, str]) -> str:
    """The statement about files, by their path in the release with their SHA-256."""
    parameters = {"images": [*images], "architectures": [*made.architectures], "python": made.python}
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {**parameters, "base": _base_name(made.base)},
        "internalParameters": {"SOURCE_DATE_EPOCH": source.epoch},
        "resolvedDependencies": [_source(made, source), *_bases(made, images), *_locks()],
    }
    named = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())]
    named += [{"name": one.name, "digest": {"sha256": one.digest.removeprefix("sha256:")}} for one in images.values()]
    predicate = {"buildDefinition": definition, "runDetails": {"builder": {"id": made.by}}}
    whole = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": named,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    }
    return json.dumps(whole, indent=2) + "\n"


def _source(made: Made, source: Source) -> dict[str, Any]:
    return {"name": "source", "uri": f"git+{made.repository}", "digest": {"gitCommit": source.commit}}


def _bases(made: Made, images: Mapping[str, Built]) -> list[dict[str, Any]]:
    """The base image of each platform: a builder does not keep its digest, so the layers say which one it was."""
    image = next(iter(images.values()))
    return [
        {
            "name": f"base image {architecture}",
            "uri": f"oci:{_base_name(made.base)}",
            "annotations": {"layers": found.base_layers},
        }
        for architecture, found in archive.read_all(image.archive).items()
    ]


def _base_name(base: str) -> str:
    """Without the folders of this machine."""
    return Path(base.removeprefix(ARCHIVE)).name if base.startswith(ARCHIVE) else base


def _locks() -> list[dict[str, Any]]:
    """The files that name each package with its hash."""
    names = ("build", "dev", "init", "operator", "trainer", "uv")
    paths = [ROOT / "requirements" / f"{name}.txt" for name in names]
    return [
        {
            "name": path.relative_to(ROOT).as_posix(),
            "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        }
        for path in paths
    ]
