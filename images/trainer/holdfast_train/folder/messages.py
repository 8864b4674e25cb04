"""What a node gives to a commit, as a message for the writer of node 0."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast_train.folder import index
from holdfast_train.folder.capture import Share
from holdfast_train.format.codec import decoded
from holdfast_train.format.manifest import Part
from holdfast_train.format.names import CheckpointName


@dataclass(frozen=True)
class ShareMessage:
    """A Share, with its index in the form that the storage has."""

    index: str
    parts: tuple[Part, ...]
    names: tuple[CheckpointName, ...]
    is_new: bool
    is_beside: bool
    metrics: Mapping[str, str]


def of_share(share: Share) -> ShareMessage:
    """The message that gives `share`."""
    known = share.known
    data = index.encode(known).decode("ascii")
    return ShareMessage(data, known.parts, share.names, share.is_new, known.is_beside, share.metrics)


def share_in(message: Mapping[str, Any]) -> Share:
    """What `message` gives. CheckpointCorruptError, ValueError, TypeError or KeyError for another message."""
    told = decoded(ShareMessage, message)
    known = index.decode(told.index.encode("ascii"), told.parts)
    return Share(replace(known, is_beside=told.is_beside), told.names, told.is_new, told.metrics)
