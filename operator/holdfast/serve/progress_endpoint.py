"""The progress endpoint: pods report and receive orders. HTTPS, JSON, bearer tokens; sizes and rates are bounded."""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from time import monotonic
from typing import Any, TypeVar

from aiohttp import web

from holdfast.api.errors import HoldfastError
from holdfast.serve.auth import Authenticator, Identity, TooManyTokensError, UnknownPodError
from holdfast.serve.connections import Bounds, Connections
from holdfast.serve.listener import Listener, peer_of
from holdfast.serve.members import MemberBook
from holdfast.serve.orders import OrderBoard
from holdfast.serve.reports import ReportBook
from holdfast.serve.token_bucket import TokenBuckets
from holdfast_protocol import endpoint, member, report
from holdfast_protocol.document import DocumentError, encode, read_json
from holdfast_protocol.endpoint import LONGEST_WAIT, POD_UID
from holdfast_protocol.member import MemberReport
from holdfast_protocol.orders import Orders
from holdfast_protocol.report import EVERY_SECONDS, MAX_BODY, OBEY, ProgressReport

log = logging.getLogger(__name__)

RATE, BURST = 4.0, 40.0  # requests of one pod: a second, and at once
PODS = 20_000  # whose rates are remembered
BODY_SECONDS = 10.0  # until a body must have arrived
_OTHER_POD = f"{POD_UID} must be the UID of the token's pod"


class Standing(Enum):
    """Whether a pod may report for a job."""

    MEMBER = "member"
    STRANGER = "this pod is not in the current attempt of this job or its successor"
    UNKNOWN = "this operator has not read the cluster yet"


Document = TypeVar("Document", ProgressReport, MemberReport)
Membership = Callable[[str, str, str, int | None], Standing]  # namespace, job, pod UID, attempt if it is known


class RequestError(HoldfastError):
    """The request is answered with this HTTP status."""

    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.retry_after = status, text, retry_after


def _answer(status: int, body: dict[str, Any], retry_after: int | None = None) -> web.Response:
    headers = {"Retry-After": str(retry_after)} if retry_after is not None else None
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)


def _refusal(status: int, text: str, retry_after: int | None = None) -> web.Response:
    return _answer(status, {"error": text}, retry_after)


class ProgressServer:
    """Answers pods. `membership` says if a pod may report for a job, `leading` if this process may answer."""

    def __init__(
        self,
        *,
        auth: Authenticator,
        book: ReportBook,
        board: OrderBoard,
        members: MemberBook,
        membership: Membership,
        leading: Callable[[], bool],
        now: Callable[[], datetime],
        report_every: float = EVERY_SECONDS,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._auth = auth
        self._book = book
        self._board = board
        self._members = members
        self._membership = membership
        self._leading = leading
        self._now = now
        self._report_every = report_every
        self._rates = TokenBuckets(RATE, BURST, PODS, clock)
        self._connections = Connections(bounds)
        self._listener: Listener | None = None
        self.observe: Callable[[str, int], None] = lambda route, status: None

    def application(self) -> web.Application:
        """The aiohttp application with its routes."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post(endpoint.PROGRESS, self._guarded("progress", self._progress))
        app.router.add_get(endpoint.ORDERS, self._guarded("orders", self._orders))
        app.router.add_post(endpoint.MEMBER, self._guarded("member", self._member))
        return app

    async def start(self, host: str | None, port: int, context: ssl.SSLContext) -> int:
        """Listen and return the port (port 0 takes a free one). Raises OSError if the address is in use."""
        self._listener = Listener(self.application(), self._connections)
        return await self._listener.start(host, port, context)

    async def stop(self) -> None:
        """Stop listening and end the requests that wait for orders."""
        if self._listener:
            await self._listener.stop()
            self._listener = None

    def _guarded(self, route: str, handle: Any) -> Any:
        async def guarded(request: web.Request) -> web.Response:
            try:
                answer: web.Response = await handle(request)
            except RequestError as error:
                answer = _refusal(error.status, error.text, error.retry_after)
            except web.HTTPRequestEntityTooLarge:
                answer = _refusal(413, f"the body is too long: at most {MAX_BODY} bytes are allowed")
            except TooManyTokensError as error:
                answer = _refusal(429, str(error), 2)
            except HoldfastError as error:
                log.warning("cannot answer a pod: %s", error)
                answer = _refusal(503, "the API server cannot review the token now; try again", 2)
            if not self._leading():
                answer.force_close()  # the next connection may reach the leader
            self.observe(route, answer.status)
            return answer

        return guarded

    async def _admit(self, request: web.Request) -> Identity:
        if not self._leading():
            raise RequestError(503, "this operator is not the leader; try again", 1)
        peer = peer_of(request)
        try:
            identity = await self._auth.identify(request.headers.get("Authorization"), peer[0])
        except UnknownPodError as error:
            raise RequestError(403, Standing.STRANGER.value) from error
        if identity is None:
            raise RequestError(401, "send a bearer token of the pod's service account for audience holdfast")
        self._connections.prove(peer, identity.pod_uid)
        if not self._rates.try_acquire(identity.pod_uid):
            raise RequestError(429, f"too many requests: at most {RATE:g} a second are allowed", 2)
        if identity.namespace != request.match_info["namespace"]:
            raise RequestError(403, Standing.STRANGER.value)
        self._check(request, identity, None)
        return identity

    def _check(self, request: web.Request, identity: Identity, attempt: int | None) -> None:
        standing = self._membership(
            request.match_info["namespace"], request.match_info["job"], identity.pod_uid, attempt
        )
        if standing is Standing.UNKNOWN:
            raise RequestError(503, standing.value, 1)
        if standing is Standing.STRANGER:
            raise RequestError(403, standing.value)

    async def _progress(self, request: web.Request) -> web.Response:
        identity = await self._admit(request)
        body = await _read(request, report.read)
        if body.pod_uid != identity.pod_uid:
            raise RequestError(403, _OTHER_POD)
        self._check(request, identity, body.attempt)
        self._book.receive((request.match_info["namespace"], request.match_info["job"]), body, self._now())
        orders = self._board.open_for(body.pod_uid, body.acknowledged) if body.sender in OBEY else ()
        return _answer(200, encode(Orders(orders=orders, report_every_seconds=self._report_every)))

    async def _member(self, request: web.Request) -> web.Response:
        identity = await self._admit(request)
        told, wait = await _read(request, member.read_report), _wait(request)
        if told.pod_uid != identity.pod_uid:
            raise RequestError(403, _OTHER_POD)
        self._members.receive((request.match_info["namespace"], request.match_info["job"]), told, self._now())
        return _answer(200, encode(await self._members.answer(told, wait)))

    async def _orders(self, request: web.Request) -> web.Response:
        identity = await self._admit(request)
        query = request.query
        if query.get(POD_UID, identity.pod_uid) != identity.pod_uid:
            raise RequestError(403, _OTHER_POD)
        try:
            after = int(query.get("after", "0"))
        except ValueError as error:
            raise RequestError(400, "after must be a whole number") from error
        attempt, wait = _attempt(request), _wait(request)
        if after < 0:
            raise RequestError(400, "after must be 0 or more")
        self._check(request, identity, attempt)
        return _answer(200, encode(Orders(orders=await self._board.wait(identity.pod_uid, after, wait))))


async def _read(request: web.Request, read: Callable[[object], Document]) -> Document:
    """The document in a request. Raises RequestError if it is late or not valid."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            content = await request.read()
    except TimeoutError as error:
        raise RequestError(408, f"the body did not arrive within {BODY_SECONDS:g} seconds") from error
    try:
        return read(read_json(content, "body"))
    except DocumentError as error:
        raise RequestError(400, str(error)) from error


def _attempt(request: web.Request) -> int | None:
    """The attempt that the query names, None if it names none."""
    try:
        return int(request.query["attempt"]) if "attempt" in request.query else None
    except ValueError as error:
        raise RequestError(400, "attempt must be a whole number") from error


def _wait(request: web.Request) -> float:
    """How long the answer may wait for an order, in seconds."""
    try:
        wait = float(request.query.get("wait", "0"))
    except ValueError as error:
        raise RequestError(400, "wait must be a number of seconds") from error
    if not 0 <= wait <= LONGEST_WAIT:
        raise RequestError(400, f"wait must be from 0 to {LONGEST_WAIT:g} seconds")
    return wait
