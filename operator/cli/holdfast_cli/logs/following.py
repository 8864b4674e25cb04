"""Follow the logs of a job: from pod to pod, and from attempt to attempt, until the job is over."""

import asyncio
import heapq
import re
from collections.abc import Sequence
from typing import Final

from holdfast.api.status import Phase
from holdfast.runtime.errors import ApiError
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs.live_job import LiveJob, waiting_words
from holdfast_cli.logs.chosen import Choice, pods_of
from holdfast_cli.logs.entries import Entry
from holdfast_cli.logs.pod_log import PodLog
from holdfast_cli.logs.reading import REFUSED, Rank
from holdfast_cli.logs.sink import Sink

PAUSE: Final = 0.1  # seconds until a stream that ended is opened again; doubled while nothing comes
LONGEST_PAUSE: Final = 5.0
TRIES: Final = 6  # to read the rest of a log whose program has ended
HOLD_BACK: Final = 0.5  # seconds for which a line waits for earlier ones of other ranks
MOST_HELD: Final = 4096  # lines that wait; more of them are written at once
_GONE: Final = 404


class Follower:
    """Follows some ranks of a job. `opened` says how far their logs were read."""

    def __init__(self, view: LiveJob, opened: Sequence[Rank], choice: Choice, screen: Sink) -> None:
        self._view = view
        self._ranks = opened
        self._choice = choice
        self._screen = screen
        self._held: list[tuple[Entry, float]] = []
        self._streams = 0  # ranks whose program writes now, as far as is known

    async def run(self) -> ExitCode:
        """Show what comes until the job is over, or the attempt that is asked for. The exit code is the job's."""
        try:
            async with asyncio.TaskGroup() as group:
                aside = [group.create_task(work) for work in (self._write_held(), self._say_why_it_waits())]
                await asyncio.gather(*[group.create_task(self._follow(rank)) for rank in self._ranks])
                for task in aside:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        self._write(0.0)
        if self._view.deleted and not self._view.job.status.is_over:
            raise CliError("the job was deleted", code=ExitCode.NOT_FOUND)
        return ExitCode.FAILED if self._view.job.status.phase is Phase.FAILED else ExitCode.OK

    async def _follow(self, rank: Rank) -> None:
        """Show the logs of one rank, the rest of the newest opened one first."""
        while True:
            if isinstance(rank.log, PodLog) and not rank.done:
                await self._to_its_end(rank, rank.log)
                rank.done = True
            pods = pods_of(self._view.pods, rank.rank, self._choice.attempt)
            following = next((pod for pod in pods if pod.attempt > rank.newest), None)
            if following is not None and not rank.beyond:
                rank.open(following)
            elif rank.beyond or self._view.is_over or self._is_behind():
                return
            else:
                await self._view.change()

    def _is_behind(self) -> bool:
        """True if the attempt that is asked for is over."""
        attempt, status = self._choice.attempt, self._view.job.status
        live = (one.number for one in (status.current, status.successor) if one is not None)
        return attempt is not None and attempt <= status.attempt and attempt not in live

    async def _to_its_end(self, rank: Rank, log: PodLog) -> None:
        """Show the log until its program has ended, and all of it was read, or cannot be."""
        pause, tries, begun = PAUSE, 0, log.position
        self._streams += 1
        try:
            while True:
                clean, error = await self._read(rank, log, last=False)
                if rank.beyond:
                    return
                pod = self._view.pod(log.pod.uid)
                if pod is None or pod.ended:
                    done, error = await self._read(rank, log, last=True)
                    tries += 1
                    if done or pod is None or tries >= TRIES or (error and error.status == _GONE):
                        if error is not None and not (done or clean):
                            rank.say_unreadable(error)
                        for entry in rank.rest(self._view.job.status.attempt):
                            self._show(entry)
                        return
                elif error is not None and self._is_left_behind(rank, log):
                    rank.say_unreadable(error)
                    return
                pause = PAUSE if log.position != begun else min(2 * pause, LONGEST_PAUSE)
                begun = log.position
                await self._view.change(pause)
        finally:
            self._streams -= 1

    def _is_left_behind(self, rank: Rank, log: PodLog) -> bool:
        """True if the job goes on in a later pod, or is over: the node of this one may be lost."""
        later = any(pod.attempt > log.pod.attempt for pod in pods_of(self._view.pods, rank.rank))
        current = self._view.job.status.current
        return self._view.is_over or (later and current is not None and current.number > log.pod.attempt)

    async def _read(self, rank: Rank, log: PodLog, *, last: bool) -> tuple[bool, ApiError | None]:
        """Show the next lines. True if the server ended the answer, otherwise its error."""
        try:
            async for entry in rank.lines(log, lambda: self._view.job.status.attempt, last=last):
                self._show(entry)
        except ApiError as error:
            if error.status in REFUSED:
                raise
            return False, error
        return True, None

    def _show(self, entry: Entry) -> None:
        self._screen.job = self._view.job
        if len(self._ranks) == 1:
            self._screen.show(entry)
            self._screen.flush()
            return
        heapq.heappush(self._held, (entry, asyncio.get_running_loop().time()))
        if len(self._held) > MOST_HELD:
            self._screen.show(heapq.heappop(self._held)[0])

    async def _write_held(self) -> None:
        while True:
            await asyncio.sleep(HOLD_BACK / 5)
            self._write(HOLD_BACK)

    def _write(self, hold_back: float) -> None:
        """Write the lines that have waited so many seconds, and those before them."""
        now = asyncio.get_running_loop().time()
        ripe = max((entry for entry, came in self._held if came <= now - hold_back), default=None)
        while ripe is not None and self._held and self._held[0][0] <= ripe:
            self._screen.show(heapq.heappop(self._held)[0])
        self._screen.job = self._view.job
        self._screen.flush()

    async def _say_why_it_waits(self) -> None:
        """Say what the job waits for while no program writes. A reason is said once, also if its numbers change."""
        said = ""
        while True:
            if not self._streams and not self._view.is_over and self._view.job.status.phase is not Phase.RUNNING:
                words = waiting_words(self._view.job)
                if (reason := re.sub(r"\d", "", words)) != said:
                    said = reason
                    self._write(0.0)
                    self._screen.say(words)
            await self._view.change()


def _first(errors: BaseExceptionGroup) -> BaseException:
    """The first error of a group; a group only has more of them if several tasks failed at once."""
    one: BaseException = errors
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one
