"""The versions of the libraries that make packages."""

from importlib import metadata
from typing import Final

LIBRARIES: Final = ("torch", "onnx", "onnxruntime", "onnxscript", "safetensors", "numpy", "holdfast-train")


def library_versions() -> dict[str, str]:
    """By name; those that are not installed are left out."""
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found
