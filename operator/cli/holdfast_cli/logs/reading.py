"""Read the logs that are there: pod after pod of each rank, all ranks in order."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.logs.chosen import Choice, pods_of
from holdfast_cli.logs.entries import Entry, Labels
from holdfast_cli.logs.kept import KEEPS, KeptLogs, KeptPodLog, UnreadableError, is_gone
from holdfast_cli.logs.lines import Line, Position
from holdfast_cli.logs.pod_log import PodLog
from holdfast_cli.logs.sink import Sink

REFUSED = (401, 403)


class Rank:
    """The logs of one rank: its pods in order, and how far they were read."""

    def __init__(self, client: Client, kept: KeptLogs, rank: int, choice: Choice, screen: Sink) -> None:
        self.rank = rank
        self.log: PodLog | KeptPodLog | None = None
        self.done = True  # there is no more to come from `log`
        self.beyond = False  # it has come to an attempt after the one that is asked for
        self._client = client
        self._kept = kept
        self._choice = choice
        self._labels = Labels(rank)
        self._screen = screen
        self._from = b""  # older lines are left out

    @property
    def newest(self) -> int:
        """The attempt that created the newest pod that was opened; 0 before the first one."""
        return self.log.pod.attempt if self.log else 0

    def open(self, pod: PodView, kept: KeptPodLog | None = None) -> PodLog | KeptPodLog:
        """Begin with the log of the next pod, or with what is kept of it."""
        choice = self._choice
        # The line that says for which attempt a pod of several nodes works must be read: its log is cut here.
        tail = None if pod.outlives or choice.grep or choice.attempt else choice.tail
        self._from = oldest(choice.since, datetime.now(UTC)) if pod.outlives or kept else b""
        self._labels.begin(pod)
        self._screen.places.setdefault(pod.attempt, pod)
        self.done = False
        self.log = kept or PodLog(self._client, pod, since=None if pod.outlives else choice.since, tail=tail)
        return self.log

    async def there(self, pods: Sequence[PodView], job: TrainingJob, *, follow: bool) -> AsyncGenerator[Entry, None]:
        """The entries of the logs that are there now. Logs that cannot be read are said, and left out.

        What is kept stands for the log of a pod in the cluster only if nothing follows: otherwise that is opened again.
        """
        newest = job.status.attempt
        for pod in pods_of(pods, self.rank, self._choice.attempt):
            kept = await self._kept.of(pod) if is_gone(pod) else None
            if kept is None:
                log = self.open(pod)
                try:
                    async for entry in self._entries(log.read(), lambda: newest):
                        yield entry
                except ApiError as error:
                    if error.status in REFUSED:
                        raise
                    self.say_unreadable(error)
                    if not follow and log.position == Position():
                        kept = await self._kept.of(pod)
            if kept is not None:
                async for entry in self._of_kept(kept, newest):
                    yield entry
            if pod.ended:
                self.done = True
                for entry in self.rest(newest):
                    yield entry

    async def _of_kept(self, log: KeptPodLog, newest: int) -> AsyncGenerator[Entry, None]:
        self.open(log.pod, log)
        try:
            async for entry in self._entries(log.read(), lambda: newest):
                yield entry
        except UnreadableError as error:
            self.say_unreadable(error)
        if log.is_cut:
            self._screen.say(f"of the log of pod {log.pod.name}, the last {KEEPS} were kept")

    async def lines(self, log: PodLog, newest: Callable[[], int], *, last: bool) -> AsyncGenerator[Entry, None]:
        """The entries that come next in a log, until the answer ends. `last`: no more of them are to come."""
        async for entry in self._entries(log.read() if last else log.follow(), newest):
            yield entry

    async def _entries(self, lines: AsyncIterator[Line], newest: Callable[[], int]) -> AsyncGenerator[Entry, None]:
        async for line in lines:
            entry = self._labels.entry(line, newest())
            if self._choice.attempt is not None and entry.attempt > self._choice.attempt:
                self.beyond = self.done = True
                return
            if entry.at >= self._from and self._choice.has(entry.attempt):
                yield entry

    def rest(self, newest: int) -> list[Entry]:
        """The last line of a log that does not end with an end of line."""
        found = [self._labels.entry(line, newest) for line in self.log.rest()] if self.log and not self.beyond else []
        return [entry for entry in found if self._choice.has(entry.attempt)]

    def say_unreadable(self, error: ApiError | UnreadableError) -> None:
        """Say that lines of the log may be missing."""
        assert self.log is not None
        pod = self.log.pod
        which = f"{pod.name} on node {pod.node}" if pod.node else pod.name
        self._screen.say(f"the log of pod {which} cannot be read, lines may be missing: {error.message}")


def oldest(since: int | None, now: datetime) -> bytes:
    """The time, as logs have it, so many seconds ago; b"" for None."""
    return b"" if since is None else f"{now - timedelta(seconds=since):%Y-%m-%dT%H:%M:%S.%f000Z}".encode()


async def ends(stream: AsyncGenerator[Entry, None], tail: int, choice: Choice) -> AsyncGenerator[Entry, None]:
    """The last `tail` entries that are asked for."""
    kept: deque[Entry] = deque(maxlen=tail)
    async for entry in stream:
        if choice.grep in entry.text:
            kept.append(entry)
    for entry in kept:
        yield entry
