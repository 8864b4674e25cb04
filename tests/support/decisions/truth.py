"""What `status.next` claims, held against the world that it is about. A sentence that no check knows is an error."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.scalars import parse_time
from holdfast.api.status import Phase, TrainingJobStatus
from holdfast.core.observe.members import fresh_ranks, is_member, pods_by_rank
from holdfast.core.observe.snapshot import Snapshot

LAG = timedelta(seconds=16)  # what the operator sees is written at most so late
CLOCK = r"(\S+Z)"


class World:
    """What a sentence is checked against: the snapshot of a decision, and the status that it wrote."""

    def __init__(self, given: Snapshot, status: TrainingJobStatus) -> None:
        self.given, self.status, self.now = given, status, given.now
        self.current, self.successor = status.current, status.successor

    def pods(self, attempt: Attempt | None) -> dict[int, str | None]:
        """The nodes of the attempt's pods that live, by rank. A node that the cluster does not have is none."""
        found = pods_by_rank(self.given.pods, attempt) if attempt else {}
        return {rank: pod.node for rank, pod in found.items() if not pod.ended and pod.node in self.given.cluster.nodes}

    def lacks_nodes(self, attempt: Attempt | None) -> bool:
        """True if a pod that the attempt creates has no node."""
        pods = self.pods(attempt)
        return attempt is not None and any(pods.get(rank) is None for rank in fresh_ranks(attempt))

    def has_part(self) -> bool:
        """True if some pods of the current attempt have a node, and others lack one."""
        pods = pods_by_rank(self.given.pods, self.current).values() if self.current else ()
        return self.lacks_nodes(self.current) and any(pod.node and not pod.ended for pod in pods)

    def has_earlier_pod(self) -> bool:
        """True if a pod lives that works for no attempt, or for one that is over."""
        return any(not pod.ended and not is_member(self.current, pod) for pod in self.given.pods)

    def later(self, text: str) -> bool:
        """True if that time is not over."""
        return _time(text) >= self.now - LAG

    def is_in(self, *states: AttemptState) -> bool:
        return self.current is not None and self.current.state in states


def _time(text: str) -> datetime:
    return parse_time(text)


Check = Callable[[World, re.Match[str]], bool]
FOLLOWS = r"Attempt (\d+) (starts|waits for a node)(?: on (\S+))? \(tier (\S+)\)"


def _follows(world: World, found: re.Match[str]) -> bool:
    """What is said of a successor."""
    successor = world.successor
    if successor is None or str(successor.number) != found[1] or successor.tier.name != found[4]:
        return False
    return found[2] == "starts" or world.lacks_nodes(successor)


def _trains(world: World, _: re.Match[str]) -> bool:
    return world.is_in(AttemptState.RUNNING)


CHECKS: tuple[tuple[str, Check], ...] = (
    (r"Nothing: training is complete\.", lambda w, _: w.status.phase is Phase.COMPLETED),
    (r"Nothing: the job has failed for good\. Fix the cause, delete the job, apply it again\.",
     lambda w, _: w.status.phase is Phase.FAILED),
    (r"The job waits for spec\.suspend: false; then (it resumes from its last checkpoint|its next attempt starts)\.",
     lambda w, m: w.current is None and (w.status.checkpoint is not None) == m[1].startswith("it resumes")),
    (r"The job waits for a higher spec\.capacity\.budget; then .*?\.", lambda w, _: w.current is None),
    (r"The job waits for a correction .*", lambda w, _: w.status.misconfigured is not None and w.current is None),
    (r"The next attempt is being prepared\.", lambda w, _: w.current is None),
    (rf"Attempt (\d+) starts at {CLOCK} \(backoff\)\.",
     lambda w, m: w.is_in(AttemptState.INTENDED) and str(w.current.number) == m[1] and w.later(m[2])),
    (r"Attempt (\d+) starts when the previous attempt has ended\.",
     lambda w, m: w.is_in(AttemptState.INTENDED) and str(w.current.number) == m[1] and w.has_earlier_pod()),
    (rf"The job waits until {CLOCK} for (?:a node|all \d+ nodes) of tier (\S+?); then .*?\.",
     lambda w, m: w.is_in(AttemptState.ACQUIRING) and w.lacks_nodes(w.current) and w.later(m[1])
     and w.current.tier.name == m[2] and len(w.given.grid) > 1),
    (r"The job waits for (?:a node|all \d+ nodes) of tier (\S+)\.",
     lambda w, m: w.is_in(AttemptState.ACQUIRING) and w.lacks_nodes(w.current) and w.current.tier.name == m[1]),
    (r"If only a part of them comes in time, it is given back\.", lambda w, _: w.current.nodes > 1),
    (r"It keeps the nodes that it has while no other training waits for them\.", lambda w, _: w.has_part()),
    (r"The job waits: .*\. If no other node comes in time, it gives those back that it has\.",
     lambda w, _: w.has_part()),
    (r"All pods have nodes and start; .*?\.(?= |$)", lambda w, _: not w.lacks_nodes(w.current)),
    (r"The pod has a node and starts: image, storage check, restore\.", lambda w, _: not w.lacks_nodes(w.current)),
    (rf"(?:The|A) node goes away at {CLOCK} \(\w+\); the job trains until then\.",
     lambda w, m: w.current.departure is not None and w.later(m[1])),
    (rf"{FOLLOWS}; when it is ready, .*?\.(?= |$)", _follows),
    (rf"{FOLLOWS}, to return to that tier\.", _follows),
    (rf"The attempt must (?:save and )?leave by {CLOCK} \(\w+\); the program has (acknowledged|not answered yet)\.",
     lambda w, m: w.is_in(AttemptState.DRAINING) and w.later(m[1])
     and (w.current.drain.acknowledged_at is not None) == (m[2] == "acknowledged")),
    (r"The time to leave is over \(\w+\): the job waits until the pod has ended\.",
     lambda w, _: w.is_in(AttemptState.DRAINING) and w.current.drain.deadline <= w.now
     and any(is_member(w.current, pod) and not pod.ended for pod in w.given.pods)),
    (r"Attempt (\d+) follows on tier (\S+)\.",
     lambda w, m: w.successor is not None and (str(w.successor.number), w.successor.tier.name) == (m[1], m[2])),
    (r"The job trains\.", _trains),
    (r"The programs? (?:trains?|runs?).*", _trains),
    (r"If (?:a|its) node is taken away, .*?\.(?= |$)", lambda w, _: True),
    (r"Nothing shows that .*", lambda w, _: not w.status.uses_checkpoints),
    (r"Node (\S+) does not answer\.",
     lambda w, m: (node := w.given.cluster.nodes.get(m[1])) is not None and not node.ready),
    (r"If no report arrives from there either, .*?\.(?= |$)", lambda w, _: True),
    (r"The program (?:starts|reads the last checkpoint from the storage), and has trained no step yet\.",
     lambda w, _: w.is_in(AttemptState.RUNNING) and w.current.first_step is None),
    (r"If the storage does not answer for a minute, .*?\.(?= |$)", lambda w, _: True),
    (r"Its last save failed: .*?\.(?= |$)", lambda w, _: w.is_in(AttemptState.DRAINING)),
    (r"The job waits: waits until (\d+) nodes of tier (\S+) are free: (\d+) are.*", lambda w, m: int(m[3]) < int(m[1])),
    (r"The job waits: .*", lambda w, _: True),
)  # fmt: skip


def check_truth(given: Snapshot, status: TrainingJobStatus) -> None:
    """Raises AssertionError if a sentence of `status.next` is not so, or is not known here."""
    text = status.next or ""
    while text:
        for pattern, is_so in CHECKS:
            if found := re.match(pattern, text):
                assert is_so(World(given, status), found), (
                    f"not so: {found[0]} ({status.current and status.current.state})"
                )
                text = text[found.end() :].lstrip()
                break
        else:
            raise AssertionError(f"no check knows this sentence: {text}")
