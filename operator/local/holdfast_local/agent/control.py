"""The control socket: one JSON object a line in, one out. It takes nodes away and brings them back."""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from holdfast_local.agent.config import AgentConfig, socket_path_fits
from holdfast_local.agent.errors import AgentError
from holdfast_local.agent.node import Node

Object = dict[str, Any]

log = logging.getLogger(__name__)


class _Order(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Reclaim(_Order):
    """Take a node away as a cloud does; seconds."""

    op: Literal["reclaim"]
    node: str
    notice: float = Field(default=30.0, alias="noticeSeconds", ge=0, le=86_400)
    kill_after: float | None = Field(default=None, alias="killAfterSeconds", ge=0, le=600)


class Change(_Order):
    """Change what a node is: the names are those of the methods of Node."""

    op: Literal["crash", "partition", "silence", "heal", "restore"]
    node: str


class Status(_Order):
    """Ask how the nodes are."""

    op: Literal["status"]


_ORDERS: TypeAdapter[Reclaim | Change | Status] = TypeAdapter(
    Annotated[Reclaim | Change | Status, Field(discriminator="op")]
)


class Control:
    """Serves ROOT/agent.sock, for the owner of the folder only."""

    def __init__(self, config: AgentConfig, nodes: dict[str, Node], facts: Callable[[], Object]) -> None:
        self._config = config
        self._nodes = nodes
        self._facts = facts
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises AgentError where the folder's path is too long for a socket."""
        path = self._config.socket
        if not socket_path_fits(self._config.root):
            raise AgentError(f"{path}: too long for a unix socket (107 bytes); use a folder with a shorter path")
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path=str(path))
        finally:
            os.umask(mask)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        self._config.socket.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = await self.answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as err:  # ValueError: a line longer than the reader takes
            log.warning("control connection ended: %s", err)
        finally:
            writer.close()

    async def answer(self, line: bytes) -> Object:
        """The answer to one line; never raises for what a caller may have got wrong."""
        try:
            order = _ORDERS.validate_json(line)
            return {"ok": True} | await self._obey(order)
        except ValidationError as err:
            problems = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'line'}: {one['msg']}" for one in err.errors())
            return {"ok": False, "error": problems}
        except AgentError as err:
            return {"ok": False, "error": str(err)}

    async def _obey(self, order: Reclaim | Change | Status) -> Object:
        if isinstance(order, Status):
            nodes = {name: {"state": node.state, "pods": len(node.workers)} for name, node in self._nodes.items()}
            return {"nodes": nodes} | self._facts()
        node = self._nodes.get(order.node)
        if node is None:
            raise AgentError(f"node {order.node!r} is not known; the nodes are {', '.join(sorted(self._nodes))}")
        if isinstance(order, Reclaim):
            kill_after = float(self._config.kill_after) if order.kill_after is None else order.kill_after
            return {"event": await node.reclaim(order.notice, kill_after)}
        change: Callable[[], Awaitable[bool]] = {
            "crash": node.crash,
            "partition": node.partition,
            "silence": node.silence,
            "heal": node.heal,
            "restore": node.restore,
        }[order.op]
        return {"changed": await change()}
