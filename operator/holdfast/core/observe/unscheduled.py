"""What the scheduler says about a pod that waits for a node: that the nodes lack capacity, or something else.

The message of the condition PodScheduled reads "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s)
didn't match Pod's node affinity/selector. preemption: ...". The scheduler stops at the first filter that a node fails,
and selectors come before volumes and topology: so every other word is about nodes that the selector matches.
"""

import re
from enum import Enum

from holdfast.core.observe.pods import PodView

_REASON_OF_SCHEDULER = "Unschedulable"  # not SchedulingGated, which is the user's, and not SchedulerError
_NO_NODES = "no nodes available to schedule pods"
_NODES = re.compile(r"nodes are available: (.*?)(?:\. |\.?$)", re.DOTALL)
_COUNTED = re.compile(r"[0-9]+ (.+)", re.DOTALL)
_INSUFFICIENT = "Insufficient "
_CAPACITY = re.compile(r"Insufficient \S+|Too many pods|node\(s\) were unschedulable|node\(s\) had untolerated taint.*")
_SELECTOR = re.compile(r"node\(s\) didn't match Pod's node affinity.*")


class Shortage(Enum):
    """What a waiting pod lacks, in the words of the scheduler."""

    NODE = "no node has the labels that the pod asks for"
    ROOM = "nodes with these labels have no room, or take no pods now"
    OTHER = "something of the pod itself, such as a gate or a volume; or the scheduler has said nothing"


def find_shortage(pod: PodView | None, accelerator: str | None = None) -> Shortage:
    """What the pod lacks. A message of another scheduler, in words that are not known, counts as OTHER.

    `accelerator`: the resource that the pod needs most. If nodes lack only other resources, such as CPU that other pods
    of the node use, that is OTHER: it says nothing about pods that ask for less of those.
    """
    if pod is None or pod.unscheduled_reason != _REASON_OF_SCHEDULER:
        return Shortage.OTHER
    if _NO_NODES in pod.unscheduled_message:
        return Shortage.NODE
    said = _NODES.search(pod.unscheduled_message)
    counted = [_COUNTED.fullmatch(part.strip()) for part in said[1].split(", ")] if said else []
    words = [found[1] if found else "" for found in counted]
    if not words or not all(_CAPACITY.fullmatch(word) or _SELECTOR.fullmatch(word) for word in words):
        return Shortage.OTHER
    lacking = [word for word in words if _CAPACITY.fullmatch(word)]
    if lacking and accelerator and all(_lacks_another(word, accelerator) for word in lacking):
        return Shortage.OTHER
    return Shortage.ROOM if lacking else Shortage.NODE


def _lacks_another(word: str, accelerator: str) -> bool:
    return word.startswith(_INSUFFICIENT) and word != f"{_INSUFFICIENT}{accelerator}"
