"""Names of checkpoints and the keys of their objects."""

import re
from typing import Final

__all__ = ["attempt_of", "fragment_key", "log_key", "log_seq", "manifest_key", "part_key", "resolve"]


def resolve(uri: str) -> tuple[str, str | None]:
    """The prefix and the checkpoint's name in `uri`: that of a manifest, or that of a whole prefix (then None)."""
    prefix, separator, rest = uri.rpartition("/manifests/")
    return (prefix, rest.removesuffix(".json")) if separator else (uri, None)


def log_key(seq: int) -> str:
    """The key of record number `seq`."""
    return f"log/{seq:012d}.json"


def log_seq(key: str) -> int | None:
    """The number of the record at `key`, None if `key` is no record."""
    name = key.removeprefix("log/").removesuffix(".json")
    return int(name) if key == f"log/{name}.json" and len(name) == 12 and name.isdecimal() else None


def manifest_key(name: str) -> str:
    """The key of the manifest of the checkpoint `name`."""
    return f"manifests/{name}.json"


def part_key(name: str, rank: int, part: int) -> str:
    """The key of one part of the data of the checkpoint `name`."""
    return f"data/{name}/r{rank}.{part}"


_NAME: Final = re.compile(r"[0-9]{12,}-a([1-9][0-9]{0,17})-[0-9a-f]+")


def attempt_of(name: str) -> int | None:
    """The attempt that wrote the checkpoint `name` (`{step}-a{attempt}-{nonce}`), None if it is no such name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def fragment_key(name: str, rank: int) -> str:
    """The key at which a rank leaves its fragment for rank 0."""
    return f"data/{name}/r{rank}.json"
