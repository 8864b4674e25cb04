"""`holdfast open`."""

import asyncio
import errno
from typing import Annotated, Final

import typer
from rich.console import Console

from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster.connect import Target, connect, explain
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.errors import CliError
from holdfast_cli.forward.channel import pump
from holdfast_cli.jobs.live_job import LiveJob, find_live
from holdfast_cli.terminal.console import console, error_console
from holdfast_cli.terminal.interruptible import interruptible

NAMED: Final = {"tensorboard": 6006}
LOOPBACK: Final = "127.0.0.1"
_HIGHEST: Final = 65535


def open_port(
    job: Job,
    port: Annotated[str, typer.Argument(metavar="PORT", help="A port of the pod, or tensorboard (6006).")],
    *,
    rank: Annotated[int, typer.Option(min=0, help="Rank of the node.")] = 0,
    local: Annotated[
        int | None,
        typer.Option(
            min=1, max=_HIGHEST, help="Port on this machine. Default: the same, or a free one.", show_default=False
        ),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Open a port of the pod in which a job runs, such as TensorBoard, on this machine.

    It prints the URL, and works until Ctrl-C or the end of the job. After a move, new connections go to the pod of the
    next attempt. Only this machine can connect. The role edit of the namespace is needed, as for kubectl port-forward.

    \b
    Examples:
      holdfast open vit-faces tensorboard -n vision
      holdfast open llm 8080 --rank 2 --local 9000
    """
    target, number = Target(kubeconfig, namespace), _number(port)

    async def run() -> None:
        async with connect(target) as client:
            live = await find_live(client, target.resolved_namespace(), job, rank)
            async with live.running():
                await _serve(Doorway(client, live, rank, number), local, console())

    with interruptible():
        asyncio.run(run())


class Doorway:
    """Carries each connection to the pod in which the rank runs at this moment."""

    def __init__(self, client: Client, live: LiveJob, rank: int, port: int) -> None:
        self.live = live
        self.port = port
        self._client = client
        self._rank = rank
        self._err = error_console()
        self._said = ""

    @property
    def pod(self) -> PodView | None:
        """The newest pod of the rank whose program runs."""
        return self.live.training_pod(self._rank)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection. Trouble ends this connection, is said once, and ends no other one."""
        try:
            if (pod := self.pod) is None:
                self._say(f"no program of {self.live.job.metadata.name} runs now ({self.live.job.status.phase})")
            elif said := await pump(self._client, pod, self.port, reader, writer):
                self._say(f"port {self.port} of pod {pod.name}: {said}")
            else:
                self._said = ""
        except ApiError as error:
            self._say(str(explain(error, self._client.host)))
        finally:
            writer.close()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._err.print(text, markup=False)


async def _serve(door: Doorway, local: int | None, out: Console) -> None:
    """Listen until the job is over, and say on which pod the port is."""
    async with await _listen(door, local) as server:
        number = server.sockets[0].getsockname()[1]
        out.print(f"http://{LOOPBACK}:{number}", markup=False)
        shown = ""
        while not door.live.is_over:
            if (pod := door.pod) is not None and pod.uid != shown:
                shown = pod.uid
                text = f"port {door.port} of pod {pod.name}, attempt {pod.attempt}, node {pod.node}"
                error_console().print(text, markup=False)
            await door.live.change()
    name = door.live.job.metadata.name
    error_console().print(f"{name} is over ({door.live.job.status.phase or 'deleted'})", markup=False)


async def _listen(door: Doorway, local: int | None) -> asyncio.Server:
    """Listen on `local`, otherwise on the same port as in the pod, or on a free one if that is taken."""
    for number in (local,) if local else (door.port, 0):
        try:
            return await asyncio.start_server(door.carry, LOOPBACK, number)
        except OSError as error:
            if local or error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise CliError(f"cannot listen on port {number}: {error.strerror}", hint="--local PORT") from error
    raise CliError("no port of this machine is free")


def _number(port: str) -> int:
    if port in NAMED:
        return NAMED[port]
    if not port.isdecimal() or not 0 < int(port) <= _HIGHEST:
        raise typer.BadParameter(f"give a number from 1 to {_HIGHEST}, or {', '.join(NAMED)}", param_hint="PORT")
    return int(port)
