"""Kubeconfig files: where kubectl looks for them, and what is wrong with them."""

import os
from pathlib import Path
from typing import Any

import yaml

from holdfast.runtime.errors import NoClusterError


def candidates(path: Path | None = None) -> list[Path]:
    """`path`, otherwise the files in $KUBECONFIG, otherwise ~/.kube/config. They may not exist."""
    if path:
        return [path]
    listed = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    return [Path(part) for part in listed if part] or [Path.home() / ".kube" / "config"]


def existing(path: Path | None = None) -> list[Path]:
    """The candidates that have content. Raises NoClusterError if there are none, or one has content of another kind.

    As for kubectl, an empty file is one that says nothing.
    """
    wanted = candidates(path)
    there = [file for file in wanted if file.is_file()]
    found = [file for file in there if read(file)]
    if not found:
        looked, empty = " or ".join(map(str, wanted)), ", ".join(map(str, there))
        why = f"there is no kubeconfig at {looked}" + (f" ({empty}: empty)" if there else "")
        raise NoClusterError(f"{why}; give --kubeconfig FILE, or set $KUBECONFIG")
    return found


def read(file: Path) -> dict[str, Any]:
    """The content of a kubeconfig, {} if it is empty. Raises NoClusterError if it cannot be read or is not a
    mapping."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NoClusterError(f"kubeconfig {file} cannot be read: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise NoClusterError(
            f"kubeconfig {file} contains a {type(content).__name__}; it must be a mapping with clusters, contexts and"
            " users, as kubectl writes it"
        )
    return content
