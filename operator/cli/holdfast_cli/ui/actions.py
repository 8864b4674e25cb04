"""What a page may ask of a job, with the user's own rights. A refusal is said in the API server's words."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from holdfast.api.errors import ExitCode, HoldfastError
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster.connect import explain
from holdfast_cli.errors import CliError
from holdfast_cli.jobs.asked import ask_checkpoint, ask_move, set_suspended
from holdfast_cli.ui.cluster import Cluster

LONGEST: Final = 253  # characters of a tier or a node
_STATUSES: Final = {
    ExitCode.FORBIDDEN: HTTPStatus.FORBIDDEN,
    ExitCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ExitCode.NO_ANSWER: HTTPStatus.BAD_GATEWAY,
}


async def act(cluster: Cluster, place: Mapping[str, str], given: Mapping[str, Any]) -> web.Response:
    """Do what the form asks for, and say in words what comes of it."""
    namespace, name, action = place["namespace"], place["name"], place["action"]
    if cluster.namespace not in (None, namespace):
        return web.Response(status=404, text=f"these pages show namespace {cluster.namespace} alone")
    try:
        text = await _ask(cluster, namespace, name, action, given)
    except ApiError as error:
        return _refused(explain(error, cluster.client.host))
    except HoldfastError as error:
        return _refused(error)
    return web.Response(text=text)


async def _ask(cluster: Cluster, namespace: str, name: str, action: str, given: Mapping[str, Any]) -> str:
    client = cluster.client
    match action:
        case "checkpoint":
            await ask_checkpoint(client, namespace, name)
            return f"{name} is asked to save. The page shows the checkpoint when it is complete."
        case "move":
            tier, node = _value(given, "tier"), _value(given, "node")
            await ask_move(client, namespace, name, tier, node)
            return f"{name} is asked to move. The page shows the next attempt."
        case _:
            await set_suspended(client, namespace, name, suspended=action == "suspend")
            return f"{name} is asked to {action}."


def _value(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    return str(value)[:LONGEST] if value else None


def _refused(error: HoldfastError) -> web.Response:
    hint = f"\n{error.hint}" if isinstance(error, CliError) and error.hint else ""
    return web.Response(status=_STATUSES.get(error.exit_code, HTTPStatus.CONFLICT), text=f"{error}{hint}")
