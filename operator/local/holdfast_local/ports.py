"""TCP ports on the loopback interface: free ones, and whether a server answers on one."""

import http.client
import socket
import ssl
from collections.abc import Iterable, Mapping

import psutil

from holdfast_local.errors import PortTakenError

HOST = "127.0.0.1"

# On a busy machine a server that is ready may take seconds for a TLS handshake. A client that hangs up before the
# answer and asks again makes it slower.
_ANSWER_SECONDS = 10.0


def free(names: Iterable[str], fixed: Mapping[str, int] | None = None) -> dict[str, int]:
    """A free port for every name, all different.

    Another process can take a port between this call and its use; the caller then tries again.

    Args:
        names: what the ports are for.
        fixed: ports that were asked for by name; they are only checked.

    Raises:
        PortTakenError: a fixed port is in use; the message names the process if it is visible.
    """
    fixed = fixed or {}
    held: list[socket.socket] = []
    ports: dict[str, int] = {}
    try:
        # Fixed ports first, and all stay bound until the end, so that no random choice takes one that is still to come.
        for name in sorted(names, key=lambda name: name not in fixed):
            port = fixed.get(name, 0)
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(listener)
            # Servers set this too: without it a port whose connections are in TIME_WAIT looks taken.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((HOST, port))
            except OSError as error:
                message = (
                    f"port {port} for {name} cannot be used ({error.strerror}){_user_of(port)}: choose another one"
                )
                raise PortTakenError(message) from error
            ports[name] = int(listener.getsockname()[1])
    finally:
        for listener in held:
            listener.close()
    return ports


def answers_ok(port: int, path: str, *, tls: bool, host: str = HOST) -> bool:
    """True if a server on this machine answers an anonymous GET with 200 within ten seconds.

    With `tls` its certificate is not checked: some parts sign their own, and the request contains no secret.
    """
    connection: http.client.HTTPConnection
    if tls:
        context = ssl._create_unverified_context()  # noqa: S323 - see above
        connection = http.client.HTTPSConnection(host, port, timeout=_ANSWER_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _user_of(port: int) -> str:
    """The process that listens on the port, in words, as far as this user may see it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and getattr(connection.laddr, "port", None) == port
            if listens and connection.pid:
                return f"; it is used by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        return ""
    return ""
