"""What the files of a folder together say: where a program is in the middle of a save.

A wrong answer delays a commit for a short while, so the table is generous.
"""

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # Hugging Face keeps it in a folder while it saves on SIGTERM
SHARDS: Final = ".index.json"  # names the files of a model that has several
STATE: Final = "trainer_state.json"  # the last file of a Trainer's checkpoint
METADATA: Final = ".metadata"  # the last file of torch.distributed.checkpoint

_TEMPORARY: Final = re.compile(
    r"(?i)\.?_*tmp[-_.].*|tmp(?-i:[a-z0-9_]{8})|\.tmp(?-i:(?=[A-Za-z]*\d|[a-z]*[A-Z])\w{6})|.*[-_.]tmp(?:[-_.0-9].*)?"
    r"|.*ckpt.*_temp|.*\.(?:part|partial|tempstate\d+|incomplete.*|orbax-checkpoint-tmp.*)"
    r"|\..+\.(?-i:(?=[A-Za-z]*\d|[a-z]*[A-Z])\w{4,8})",  # the last one: of rsync
    re.DOTALL,
)
_HINT: Final = re.compile(r"(?i)tmp|temp|\.part|\.incomplete|(?:\A|/)\.")  # quick: one in each temporary name
_CHECKPOINT: Final = re.compile(r"(?:\A|/)checkpoint-\d+\Z")
_OF_TRAINER: Final = re.compile(r"training_args\.bin|scheduler\.pt|rng_state.*\.pth")


def is_temporary(name: str) -> bool:
    """True if the name says that the file or folder is still written, and gets another name then."""
    return _TEMPORARY.fullmatch(name) is not None


def temporary_part(path: str) -> str | None:
    """`path` up to its first part with a temporary name."""
    parts = path.split("/") if _HINT.search(path) else ()
    return next(("/".join(parts[: count + 1]) for count, part in enumerate(parts) if is_temporary(part)), None)


class Unfinished(NamedTuple):
    """A save that is under way at `path`, and `why`. `lacks`: the file that ends it; empty if nothing names one."""

    path: str
    why: str
    lacks: str = ""


def unfinished(
    paths: Collection[str], text_of: Callable[[str], str | None], elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """Files and folders in which a save is under way, each with the reason.

    `paths`: of all files and links. `text_of`: the text of a file, None if it is not a text or is too long.
    `elsewhere`: paths that are known to be in the folder of another node.
    """
    return {one.path: one.why for one in _unfinished(paths, text_of) if not one.lacks or one.lacks not in elsewhere}


def lacking(paths: Collection[str], text_of: Callable[[str], str | None]) -> set[str]:
    """The files that would end the saves that are under way. Another node may have them: see `unfinished`."""
    return {one.lacks for one in _unfinished(paths, text_of) if one.lacks}


def _unfinished(paths: Collection[str], text_of: Callable[[str], str | None]) -> Iterator[Unfinished]:
    known, folders = set(paths), dict[str, set[str]]()
    for path in known:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, set()).add(name)
        if (temporary := temporary_part(path)) is not None:
            yield Unfinished(temporary, "its name is that of a file or folder that is still written")
        elif name.endswith(SHARDS):
            for shard in _shards(path, text_of):
                if shard not in known:
                    yield Unfinished(path, f"it names {shard}, which is missing", shard)
    for folder, names in folders.items():
        if INCOMPLETE in names:
            yield Unfinished(folder, f"{INCOMPLETE} is there")
        elif METADATA not in names and any(name.endswith(".distcp") for name in names):
            yield Unfinished(folder, f"{METADATA} is missing", _below(folder, METADATA))
        elif STATE not in names and _CHECKPOINT.search(folder) and any(map(_OF_TRAINER.fullmatch, names)):
            yield Unfinished(folder, f"{STATE} is missing", _below(folder, STATE))


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _shards(path: str, text_of: Callable[[str], str | None]) -> Iterator[str]:
    """The files below the folder that the index at `path` names. An index of another kind names none."""
    try:
        index: Any = json.loads(text_of(path) or "null")
    except (ValueError, RecursionError):  # `formats.whole` tells a torn one
        return
    shards = index.get("weight_map") if isinstance(index, dict) else None
    for name in set(map(str, shards.values())) if isinstance(shards, dict) else ():
        shard = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if not shard.startswith(("..", "/")):
            yield shard
