"""What the writers of several nodes tell each other, as messages: a look, and what a node gives to a commit."""

from dataclasses import asdict, replace
from typing import Any

from holdfast_train.folder import index
from holdfast_train.folder.capture import Share
from holdfast_train.folder.same_save import Seen
from holdfast_train.format.manifest import Part
from holdfast_train.format.names import CheckpointName


def of_seen(seen: Seen) -> dict[str, Any]:
    """What a node has seen, as a message."""
    return asdict(seen)


def seen_in(message: dict[str, Any], rank: int) -> Seen:
    """What the node `rank` has seen. ValueError, TypeError or KeyError for another message."""
    return Seen(**{**message, "rank": rank, "lacks": tuple(map(str, message["lacks"]))})


def of_share(share: Share) -> dict[str, Any]:
    """What a node gives to a commit, as a message."""
    return {
        "index": index.encode(share.known).decode("ascii"),
        "parts": [(part.key, part.size, part.chunk, part.crc64nvme) for part in share.known.parts],
        "names": list(map(str, share.names)),
        "isNew": share.is_new,
        "isBeside": share.known.is_beside,
        "metrics": dict(share.metrics),
    }


def share_in(message: dict[str, Any]) -> Share:
    """What a node gives to a commit. CheckpointCorruptError, ValueError or KeyError for another message."""
    parts = [
        Part(str(key), int(size), int(chunk), tuple(map(str, sums))) for key, size, chunk, sums in message["parts"]
    ]
    known = index.decode(message["index"].encode("ascii"), parts)
    return Share(
        replace(known, is_beside=bool(message["isBeside"])),
        names_in(message["names"]),
        bool(message["isNew"]),
        {str(name): str(value) for name, value in message["metrics"].items()},
    )


def names_in(texts: list[Any]) -> tuple[CheckpointName, ...]:
    """The names in a message. ValueError for another text."""
    found = tuple(CheckpointName.parse(str(text)) for text in texts)
    if None in found:
        raise ValueError("what should be a name of data is none")
    return tuple(name for name in found if name is not None)
