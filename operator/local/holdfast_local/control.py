"""Orders to the node agent over its unix socket: one JSON line there, one JSON line back."""

import json
import socket

from holdfast_local.errors import ControlError
from holdfast_local.layout import Layout

_TIMEOUT = 30.0


def order(layout: Layout, operation: str, node: str, **values: float | str) -> None:
    """Give an order for a node and wait until the agent has accepted it.

    Raises:
        ControlError: the agent cannot be reached, or refuses; the message says why.
    """
    request = json.dumps({"op": operation, "node": node, **values}) + "\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_TIMEOUT)
            connection.connect(str(layout.agent_socket))
            connection.sendall(request.encode())
            with connection.makefile("r", encoding="utf-8") as answers:
                line = answers.readline()
    except OSError as error:
        raise ControlError(
            f"the node agent does not answer on {layout.agent_socket} ({error}): see `holdfast local status`"
        ) from error
    try:
        answer = json.loads(line)
        accepted, reason = answer["ok"], answer.get("error", "no reason given")
    except (ValueError, KeyError, TypeError) as error:
        raise ControlError(f"the node agent answered {line[:200]!r}, which is not an answer") from error
    if not accepted:
        raise ControlError(f"{operation} {node}: {reason}")
