"""The claims of all jobs: computed again only for a job whose status or pods have changed."""

from collections.abc import Callable, Iterable

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.claims import Claim, claims_of, has_claims, is_waiting
from holdfast.core.observe.pods import PodView

Name = tuple[str, str]  # namespace and name of a job
Read = Callable[[Name], tuple[TrainingJob | None, Iterable[PodView]]]


class ClaimBook:
    """Which jobs lack nodes, or wait for their turn. A cluster without trainings on several nodes costs nothing."""

    def __init__(self) -> None:
        self._claims: dict[Name, tuple[Claim, ...]] = {}  # only those that matter to other jobs
        self._waiting: dict[Name, tuple[tuple[int, str], ...]] = {}  # attempts without all nodes: number, state
        self._in_line: set[Name] = set()
        self._changed: set[Name] = set()

    def note_job(self, key: Name, job: TrainingJob | None) -> set[Name]:
        """Note the newest version of a job, or None if it is gone; returns the jobs whose turn may have come."""
        before = self._waiting.pop(key, ())
        self._in_line.discard(key)
        if job is None or not has_claims(job):
            if before:
                self._claims.pop(key, None)
                self._changed.discard(key)
            return set(self._in_line) if before else set()
        attempts = [one for one in (job.status.current, job.status.successor) if one is not None and is_waiting(one)]
        after = self._waiting[key] = tuple([(one.number, one.state.value) for one in attempts])
        self._changed.add(key)
        others = set(self._in_line) if before != after else set()
        if any(one.in_line_since is not None and one.created_at is None for one in attempts):
            self._in_line.add(key)
        return others

    def note_pods(self, key: Name) -> None:
        """Note that a pod of the job has changed."""
        if key in self._waiting:
            self._changed.add(key)

    def of_others(self, key: Name, read: Read) -> tuple[Claim, ...]:
        """The claims of other jobs that lack nodes, or wait for their turn."""
        for one in self._changed:
            job, pods = read(one)
            found = claims_of(job, pods) if job else ()
            self._claims[one] = tuple([claim for claim in found if claim.matters])
        self._changed.clear()
        return tuple([claim for one, claims in self._claims.items() if one != key for claim in claims])
