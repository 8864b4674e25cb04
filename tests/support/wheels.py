"""An index of Python packages on this machine: a folder with wheels that are made on the spot."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest


def make_wheel(
    index: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    requires: Sequence[str] = (),
    commands: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """Write a wheel into `index`. `commands`: names of commands with what they call, such as tool.main:run."""
    made = {path: text.encode() for path, text in files.items()}
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    made[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode()
    is_pure = str(tag.endswith("-any")).lower()
    made[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: {is_pure}\nTag: {tag}\n".encode()
    if commands:
        lines = "".join(f"{command} = {calls}\n" for command, calls in commands.items())
        made[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    record = "".join(f"{path},sha256={_hash(data)},{len(data)}\n" for path, data in made.items())
    made[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    index.mkdir(parents=True, exist_ok=True)
    path = index / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for where, data in made.items():
            wheel.writestr(where, data)
    return path


def use_index(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let uv find packages in `index` alone, and keep nothing outside of `cache`."""
    for name, value in variables(index, cache).items():
        monkeypatch.setenv(name, value)


def variables(index: Path, cache: Path) -> dict[str, str]:
    """The same, as environment variables of a command."""
    return {
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(index),
        "UV_CACHE_DIR": str(cache / "uv"),
        "UV_NO_CONFIG": "1",
        "HOLDFAST_CACHE": str(cache / "holdfast"),
    }


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
