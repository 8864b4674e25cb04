"""`holdfast ui`: pages of jobs and tiers in a browser, which change as the cluster does."""

import asyncio
import os
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError
from holdfast_cli.terminal.console import console
from holdfast_cli.ui.app import Pages, serve
from holdfast_cli.ui.cluster import Cluster
from holdfast_cli.ui.security import Guard
from holdfast_model.pages.template import Template

_HTML: Final = Template(__name__)

HOST = "127.0.0.1"


def ui(
    *,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    open_browser: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the pages. Default: if a browser can be opened.", show_default=False
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show jobs and tiers in a browser, live, and ask jobs to save, move or suspend.

    The pages are served on 127.0.0.1 to the browser that opens the printed address, with the rights of your
    kubeconfig. Ctrl-C ends it.

    \b
    Examples:
      holdfast ui            the jobs of the namespace
      holdfast ui -A         the jobs of the cluster
      holdfast ui --no-open  print the address, and open nothing
    """
    if namespace and all_namespaces:
        raise typer.BadParameter("give --namespace or --all-namespaces, not both")
    target = Target(kubeconfig, namespace)
    wanted = can_open() if open_browser is None else open_browser
    with listening(port) as sock:
        guard = Guard(sock.getsockname()[1])

        async def run() -> None:
            async with connect(target) as client:
                where = None if all_namespaces else target.resolved_namespace()
                cluster = Cluster(client, where)
                async with cluster.running():
                    scope = f"{f'namespace {where}' if where else 'all namespaces'} of {client.host}"
                    runner = await serve(Pages(cluster, guard, scope).app(), sock)
                    try:
                        with announced(guard.address, scope, opened=wanted):
                            await asyncio.Event().wait()
                    finally:
                        await runner.cleanup()

        try:
            asyncio.run(run())
        except KeyboardInterrupt:
            return


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A socket that listens on the loopback interface. Raises CliError if the port is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError as error:
            why = error.strerror or str(error)
            raise CliError(
                f"--port {port} cannot be used: {why}", hint="leave --port out: a free port is used"
            ) from error
        sock.listen(128)
        sock.setblocking(False)
        yield sock


@contextmanager
def announced(address: str, scope: str, *, opened: bool) -> Iterator[None]:
    """Print the address, and open it if that is wanted. It holds a secret: no other user of the machine may read it."""
    out = console()
    out.print(Text(f"Jobs in {scope}:"))
    out.print(Text(f"  {address}"), soft_wrap=True)
    out.print(Text("The address lets a browser in: keep it to yourself. Ctrl-C ends this.", style="dim"))
    if not opened:
        yield
        return
    # A file that only this user can read, because all users of a machine can read the arguments of a browser.
    with tempfile.TemporaryDirectory(prefix="holdfast-ui-") as folder:
        page = Path(folder) / "open.html"
        page.write_text(_HTML.redirect(address))
        webbrowser.open(page.as_uri())
        yield


def can_open() -> bool:
    """True if a person is here, and a browser with windows."""
    if not sys.stdout.isatty() or os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
