"""Play the script on the stage and show it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_time
from holdfast.core.observe.members import is_member
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.jobs import members, view
from holdfast_cli.terminal import formats
from holdfast_local.cluster import Cluster
from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.logs import LogFollower
from holdfast_local.demo.losses import LossBook
from holdfast_local.demo.screen import screen
from holdfast_local.demo.script import NOTICE, Script, Struck
from holdfast_local.demo.stage import NAMESPACE, Stage
from holdfast_local.demo.stories import Blow, Story

LOOK_EVERY = 0.5  # seconds
ROWS_BESIDE_EVENTS, FEWEST_EVENTS = 32, 3


@dataclass(slots=True)
class Played:
    """The result of the demo."""

    job: TrainingJob
    events: Sequence[job_api.Line]
    last_screen: RenderableType
    script: Script
    book: LossBook


@dataclass(slots=True)
class PlainLines:
    """Prints what is new as plain lines, for an output that is not a terminal."""

    out: Console
    state: str = ""
    shown: set[tuple[str, int]] = field(default_factory=set)

    def print_news(self, job: TrainingJob, events: Sequence[job_api.Line], now: datetime) -> None:
        """Print what is new."""
        for event in events:
            if (event.uid, event.count) not in self.shown:
                self.shown.add((event.uid, event.count))
                self.print(f"{formats.clock(event.at)} {event.reason}: {event.message}")
        state = view.plain_state(job)
        if state != self.state:
            self.state = state
            self.print(f"{formats.clock(now)} {state}")

    def print(self, line: str) -> None:
        """Print one line."""
        self.out.print(line, markup=False, soft_wrap=True)


async def play(made: Stage, story: Story, name: str, out: Console, *, seconds: float) -> Played:
    """Follow the job and take its nodes until it is over. Raises DemoError (also on timeout), LocalError, CliError."""
    target = Target(made.cluster.admin_kubeconfig, NAMESPACE)
    try:
        async with connect(target) as client, asyncio.timeout(seconds):
            return await _Player(made, story, client, name, out).run()
    except TimeoutError as error:
        raise DemoError(f"the job was not over within {seconds:g} s; the last state is shown above") from error


class _Player:
    def __init__(self, made: Stage, story: Story, client: Any, name: str, out: Console) -> None:
        self._made, self._story, self._client, self._name, self._out = made, story, client, name, out
        self._script, self._book, self._lines = Script(story.scenes), LossBook(), PlainLines(out)

    async def run(self) -> Played:
        follower = LogFollower(self._made.cluster, self._book)
        live = Live(console=self._out, auto_refresh=False) if self._out.is_terminal else None
        try:
            with live or nullcontext():
                while True:
                    played = await self._look()
                    follower.see(played.job)
                    if live:
                        live.update(played.last_screen, refresh=True)
                    else:
                        self._lines.print_news(played.job, played.events, datetime.now(UTC))
                    if played.job.status.is_over:
                        return played
                    await self._strike(played.job)
                    await asyncio.sleep(LOOK_EVERY)
        finally:
            await follower.close()

    async def _look(self) -> Played:
        self._made.check_operator()
        job = await job_api.get_job(self._client, NAMESPACE, self._name)
        events = await job_api.job_events(self._client, job)
        room = max(FEWEST_EVENTS, self._out.height - ROWS_BESIDE_EVENTS)
        shown = screen(
            job, events[-room:], datetime.now(UTC), title=self._story.title, script=self._script, book=self._book
        )
        return Played(job, events, shown, self._script, self._book)

    async def _strike(self, job: TrainingJob) -> None:
        pods = await members.read_pods(self._client, job)
        nodes = {pod.rank: pod.node for pod in pods.views if pod.node and is_member(job.status.current, pod)}
        struck = self._script.due(job, nodes)
        if struck is None:
            return
        self._script.record(struck)
        if not self._out.is_terminal:
            self._lines.print(f"--- {struck.scene.title} ({struck.node}, at step {struck.step}): {struck.scene.after}")
        deadline = self._script.deadline(struck, job, datetime.now(UTC))
        await asyncio.to_thread(strike, self._made.cluster, struck, self._name, deadline)


def strike(cluster: Cluster, struck: Struck, job: str, deadline: datetime | None) -> None:
    """Take the node. Before that, set the job's new deadline if the scene has one."""
    if deadline is not None:
        patch = {"spec": {"capacity": {"deadline": format_time(deadline.replace(microsecond=0))}}}
        cluster.kubectl("-n", NAMESPACE, "patch", "tj", job, "--type=merge", "-p", json.dumps(patch))
    if struck.scene.blow is Blow.RECLAIM:
        cluster.reclaim(struck.node, NOTICE)
    else:
        cluster.crash(struck.node)
