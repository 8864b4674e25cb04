"""package.json as it is written: what the package is, where it is from, and what was found of each variant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from holdfast_model.package.folder import TESTS, VERSION, file_entry, tensor_entries
from holdfast_model.package.problem import Arrays, Pixels, Problem, check

LIBRARIES: Final = ("torch", "onnx", "onnxruntime", "onnxscript", "safetensors", "numpy", "holdfast-train")


@dataclass(frozen=True)
class Origin:
    """Where the weights are from."""

    job_uid: str
    step: int
    manifest: str
    sha256: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""

    def entry(self) -> dict[str, Any]:
        """As in package.json."""
        said = {"jobUid": self.job_uid, "step": self.step, "manifest": self.manifest, "sha256": self.sha256}
        return said | {"metrics": dict(self.metrics)} | ({"revision": self.revision} if self.revision else {})


@dataclass(frozen=True)
class Tests:
    """The file with the tests, their inputs, and in words those that are too large to be tested."""

    file: Path
    inputs: Sequence[Arrays]
    left_out: Sequence[str]

    def entry(self, problem: Problem) -> dict[str, Any]:
        """As in package.json."""
        said: dict[str, Any] = {"file": TESTS, **file_entry(self.file)}
        said["cases"] = [{"dims": check("a case", one, problem.inputs, problem.dims)} for one in self.inputs]
        return said | ({"leftOut": list(self.left_out)} if self.left_out else {})


def made_document(
    name: str, origin: Origin, problem: Problem, tests: Tests, *, reference: float | None, variants: Mapping[str, Any]
) -> dict[str, Any]:
    """All but what did not pass, and the hashes of the pages. `reference`: the score of the model in torch."""
    document: dict[str, Any] = {
        "v": VERSION,
        "name": name,
        "from": origin.entry(),
        "made": {"at": datetime.now(UTC).isoformat(timespec="seconds"), "versions": _versions()},
        "problem": {
            "inputs": tensor_entries(problem.inputs),
            "outputs": tensor_entries(problem.outputs),
            "dims": {symbol: list(limits) for symbol, limits in problem.dims.items()},
            **({"classes": list(problem.classes)} if problem.classes else {}),
            **({"pixels": _pixels(problem.pixels)} if problem.pixels else {}),
        },
        "tests": tests.entry(problem),
        "variants": dict(variants),
    }
    if problem.score is not None and reference is not None:
        score = {"name": problem.score.name, "reference": f"{reference:.4f}"}
        document["score"] = score | {"maxDrop": f"{problem.score.max_drop:g}"}
        if problem.score.samples:
            document["score"]["samples"] = problem.score.samples
    return document


def _pixels(pixels: Pixels) -> dict[str, list[str]]:
    return {"mean": [f"{one:g}" for one in pixels.mean], "std": [f"{one:g}" for one in pixels.std]}


def _versions() -> dict[str, str]:
    """The versions of the libraries that make packages; those that are not installed are left out."""
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found
