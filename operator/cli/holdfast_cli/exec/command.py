"""`holdfast exec`."""

import asyncio
import re
import sys
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final

import typer

from holdfast.api.names import TRAINER_CONTAINER
from holdfast.api.status import Phase
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.exec import streams
from holdfast_cli.exec.channel import PROTOCOLS, STDERR, STDIN, STDOUT, Ends, Outcome, converse
from holdfast_cli.jobs.live_job import LiveJob, find_live, waiting_words
from holdfast_cli.terminal.console import error_console
from holdfast_cli.terminal.interruptible import interruptible

LOST: Final = 255  # exit code: the pod or the connection ended before the command
_SHELL: Final = "sh"
_KILLED: Final = 137  # exit code of a command that SIGKILL ended, as the end of its pod does
_PATIENCE: Final = 5.0  # seconds until the end of a pod is known after the end of its programs


def execute(
    job: Job,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND", help="The command and its arguments. Default on a terminal: sh.", show_default=False
        ),
    ] = None,
    *,
    rank: Annotated[int, typer.Option(min=0, help="Rank of the node.")] = 0,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a command, or a shell, in the pod in which a job runs.

    It waits until the program of the job runs. The exit code is that of the command, or 255 if the pod ends first: the
    command is not run again. A shell without COMMAND goes on in the next pod, as a new one. Standard input goes to the
    command, to its end. The role edit of the namespace is needed, as for kubectl exec.

    \b
    Examples:
      holdfast exec vit-faces -n vision
      holdfast exec vit-faces -- nvidia-smi
      holdfast exec llm --rank 2 -- py-spy dump --pid 1
      tar cf - data | holdfast exec vit-faces -- tar xf - -C /tmp
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not command and not is_terminal:
        raise typer.BadParameter("name the command, such as -- nvidia-smi", param_hint="COMMAND")
    target = Target(kubeconfig, namespace)

    async def run() -> int:
        async with connect(target) as client:
            live = await find_live(client, target.resolved_namespace(), job, rank)
            async with live.running():
                visit = Visit(client, live, rank, command or [_SHELL], is_terminal=is_terminal)
                return await (visit.run() if command else visit.stay())

    with interruptible():
        code = asyncio.run(run())
    raise typer.Exit(code)


class Visit:
    """Runs a command in the pod in which the rank trains at this moment."""

    def __init__(self, client: Client, live: LiveJob, rank: int, command: list[str], *, is_terminal: bool) -> None:
        self._client = client
        self._live = live
        self._rank = rank
        self._command = command
        self._is_terminal = is_terminal
        self._err = error_console()

    async def run(self) -> int:
        """Run the command once; its exit code. Raises CliError, ApiError."""
        pod = await self._next_pod()
        code = await self._run_in(pod)
        if code is None:
            self._say(f"{self._end_of(pod)}; the command has ended with it. It is not repeated: run it again")
        return LOST if code is None else code

    async def stay(self) -> int:
        """Run the shell, and a new one in each next pod, until a person leaves it; its exit code.

        Raises CliError, ApiError.
        """
        pod = await self._next_pod()
        while (code := await self._run_in(pod)) is None:
            self._say(self._end_of(pod))
            pod = await self._next_pod(after=pod.uid)
            self._say(f"a new shell in pod {pod.name}, attempt {pod.attempt}, node {pod.node}")
        return code

    async def _next_pod(self, after: str = "") -> PodView:
        """The pod that trains, once there is one with another UID than `after`. Raises CliError if none is to come."""
        said = ""
        while (pod := self._live.training_pod(self._rank)) is None or pod.uid == after:
            self._refuse_to_wait()
            words = waiting_words(self._live.job)
            if (reason := re.sub(r"\d", "", words)) != said:
                said = reason
                self._say(words)
            await self._live.change()
        return pod

    def _refuse_to_wait(self) -> None:
        live, name = self._live, self._live.job.metadata.name
        if live.deleted:
            raise CliError(f"{name} was deleted", code=ExitCode.NOT_FOUND)
        if live.is_over:
            raise CliError(f"{name} is over ({live.job.status.phase}): no program of it runs")
        status = live.job.status
        is_paused = status.phase is Phase.SUSPENDED and status.observed_generation >= live.job.metadata.generation
        if live.job.spec.suspend or is_paused:
            hint = f"holdfast {'resume' if live.job.spec.suspend else 'describe'} {name}"
            raise CliError(f"{name} is suspended ({status.reason}): no program of it runs", hint=hint)

    async def _run_in(self, pod: PodView) -> int | None:
        """Run the command in the pod; its exit code, None if the pod ended before it. Raises CliError, ApiError."""
        talk = asyncio.create_task(self._converse(pod))
        watch = asyncio.create_task(self._until_ended(pod))
        try:
            await asyncio.wait([talk, watch], return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()  # raises if the pods cannot be watched any more
                await asyncio.wait([talk], timeout=_PATIENCE)  # its last words; those of a lost node never come
                if not talk.done():
                    return None
            outcome = await talk
            if outcome is None or outcome.code in (None, _KILLED):
                await asyncio.wait([watch], timeout=_PATIENCE)
                if watch.done():
                    watch.result()
                    return None
        finally:
            for task in (talk, watch):
                task.cancel()
            await asyncio.gather(talk, watch, return_exceptions=True)
        if outcome is None:
            self._say(f"the connection to pod {pod.name} was cut: the command may still run there")
            return LOST
        if outcome.code is None:
            raise CliError(f"{self._command[0]} did not start in pod {pod.name}: {outcome.message}")
        return outcome.code

    async def _until_ended(self, pod: PodView) -> None:
        """Wait until the pod is gone, or its program has ended. Raises ApiError."""
        while (now := self._live.pod(pod.uid)) is not None and not now.ended:
            await self._live.change()

    async def _converse(self, pod: PodView) -> Outcome | None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/exec"
        wanted = {"container": TRAINER_CONTAINER, "command": self._command, "stdin": "true", "stdout": "true"}
        wanted["tty" if self._is_terminal else "stderr"] = "true"
        write = {channel: partial(streams.write, channel) for channel in (STDOUT, STDERR)}
        ends = Ends(partial(streams.read, STDIN), write, self._say, streams.sizes(STDIN) if self._is_terminal else None)
        try:
            async with self._client.websocket(path, wanted, PROTOCOLS) as socket:
                with streams.raw(STDIN) if self._is_terminal else nullcontext():
                    return await converse(socket, ends)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                hint = "ask for the role edit of this namespace: it has the right pods/exec"
                raise CliError(f"not allowed: {error.message}", code=error.exit_code, hint=hint) from error
            raise

    def _end_of(self, pod: PodView) -> str:
        """That the pod has ended, and what becomes of the job."""
        live = self._live
        now = f"is over ({live.job.status.phase})" if live.is_over else "goes on in its next pod"
        return f"pod {pod.name} has ended: {live.job.metadata.name} {now}"

    def _say(self, text: str) -> None:
        self._err.print(text, markup=False)
