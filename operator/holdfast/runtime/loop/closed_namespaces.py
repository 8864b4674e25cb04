"""Namespaces that are being deleted: nothing can be created there, so jobs there make no attempt.

The operator does not read Namespaces. It learns of a deletion when the API server refuses to create something. Then all
jobs of the namespace wait, and after a growing delay one of them tries again. A job that was created after the last
refusal shows that there is a new namespace of this name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from holdfast.api.objects import TrainingJob

FIRST_DELAY = 10.0  # seconds; it doubles with each further refusal
LONGEST_DELAY = 600.0
FORGOTTEN_AFTER = 3600.0  # seconds without another refusal


@dataclass(slots=True)
class _Closed:
    refused_at: datetime
    until: float
    times: int


class ClosedNamespaces:
    """Remembers in which namespaces the API server refused to create anything. Use it inside one event loop."""

    def __init__(self, now: Callable[[], datetime], clock: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._clock = clock
        self._closed: dict[str, _Closed] = {}

    def refused(self, namespace: str) -> None:
        """The API server says that the namespace is being deleted or does not exist.

        Requests that were under way together count as one refusal.
        """
        known = self._closed.get(namespace)
        if known and self._clock() < known.until:
            known.refused_at = self._now()
            return
        times = known.times + 1 if known else 1
        delay = min(FIRST_DELAY * 2 ** min(times - 1, 30), LONGEST_DELAY)
        self._closed[namespace] = _Closed(self._now(), self._clock() + delay, times)
        for name in [name for name, one in self._closed.items() if self._clock() - one.until > FORGOTTEN_AFTER]:
            del self._closed[name]

    def accepted(self, namespace: str) -> None:
        """Something was created in the namespace."""
        self._closed.pop(namespace, None)

    def closed_for(self, job: TrainingJob) -> float | None:
        """For how many more seconds the job must not create anything; None if it may."""
        known = self._closed.get(job.metadata.namespace)
        if known is None or known.until <= self._clock():
            return None
        born = job.metadata.creation_timestamp
        if born is not None and born > known.refused_at:
            return None
        return known.until - self._clock()
