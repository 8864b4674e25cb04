"""The progress endpoint: pods report, and orders come back at once. HTTPS, JSON, bearer token, bounded in every way."""

import json
import logging
import ssl
from asyncio import sslproto
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from time import monotonic
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from holdfast.api.errors import HoldfastError
from holdfast.serve.auth import Authenticator, Identity
from holdfast.serve.body import MAX_BODY, ProgressBody
from holdfast.serve.orders import OrderBoard
from holdfast.serve.reports import ReportBook

log = logging.getLogger(__name__)

LONGEST_WAIT = 60.0  # seconds
RATE, BURST = 4.0, 40.0  # requests a second and at once, of one pod
PODS = 20_000
TLS_BUFFER = 32 * 1024


class Standing(Enum):
    """What a pod is to a job."""

    MEMBER = "member"
    STRANGER = "not a pod of the current or a draining attempt of this job"
    UNKNOWN = "this operator has not read the cluster yet"


Membership = Callable[[str, str, str, int | None], Standing]  # namespace, job, pod UID, attempt if it was said


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.retry_after = status, text, retry_after


def _shrink_tls_buffers() -> None:
    """asyncio gives every TLS connection a buffer of 256 KiB. Every pod holds two connections, and says little."""
    if getattr(sslproto.SSLProtocol, "max_size", 0) > TLS_BUFFER:
        sslproto.SSLProtocol.max_size = TLS_BUFFER


def _answer(status: int, body: dict[str, Any], retry_after: int | None = None) -> web.Response:
    headers = {"Retry-After": str(retry_after)} if retry_after is not None else None
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)


class _Rates:
    """One small token bucket for each pod; the longest unused is forgotten first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, pod_uid: str) -> bool:
        now = self._clock()
        left, at = self._left.pop(pod_uid, (BURST, now))
        left = min(BURST, left + (now - at) * RATE)
        self._left[pod_uid] = (max(0.0, left - 1), now)
        if len(self._left) > PODS:
            self._left.popitem(last=False)
        return left >= 1


class ProgressServer:
    """Answers pods. `membership` says whether a pod may speak for a job; `leading` whether this process may answer."""

    def __init__(
        self,
        *,
        auth: Authenticator,
        book: ReportBook,
        board: OrderBoard,
        membership: Membership,
        leading: Callable[[], bool],
        now: Callable[[], datetime],
        report_every: float = 15.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._auth = auth
        self._book = book
        self._board = board
        self._membership = membership
        self._leading = leading
        self._now = now
        self._report_every = report_every
        self._rates = _Rates(clock)
        self._runner: web.AppRunner | None = None
        self.observe: Callable[[str, int], None] = lambda route, status: None

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY)
        job = "/v1/namespaces/{namespace}/jobs/{job}"
        app.router.add_post(f"{job}/progress", self._guarded("progress", self._progress))
        app.router.add_get(f"{job}/orders", self._guarded("orders", self._orders))
        return app

    async def start(self, host: str | None, port: int, context: ssl.SSLContext) -> int:
        """Listen; returns the port (useful if 0 was asked for). Raises OSError if the address is taken."""
        _shrink_tls_buffers()
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=1.0, keepalive_timeout=75.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=context, reuse_address=True, backlog=1024)
        await site.start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening; requests that wait for orders end."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def _guarded(self, route: str, handle: Any) -> Any:
        async def guarded(request: web.Request) -> web.Response:
            try:
                answer: web.Response = await handle(request)
            except _Refusal as refusal:
                answer = _answer(refusal.status, {"error": refusal.text}, refusal.retry_after)
            except web.HTTPRequestEntityTooLarge:
                answer = _answer(413, {"error": f"the body is longer than {MAX_BODY} bytes"})
            except HoldfastError as error:
                log.warning("a pod could not be answered: %s", error)
                answer = _answer(503, {"error": "the API server cannot be asked now; try again"}, 2)
            if not self._leading():
                answer.force_close()  # the next connection may find the process that leads
            self.observe(route, answer.status)
            return answer

        return guarded

    async def _admit(self, request: web.Request) -> Identity:
        if not self._leading():
            raise _Refusal(503, "this operator does not lead; try again", 1)
        identity = await self._auth.identify(request.headers.get("Authorization"))
        if identity is None:
            raise _Refusal(401, "a bearer token of the pod's service account for audience holdfast is needed")
        if not self._rates.allow(identity.pod_uid):
            raise _Refusal(429, f"more than {RATE:g} requests a second", 2)
        if identity.namespace != request.match_info["namespace"]:
            raise _Refusal(403, Standing.STRANGER.value)
        self._check(request, identity, None)
        return identity

    def _check(self, request: web.Request, identity: Identity, attempt: int | None) -> None:
        standing = self._membership(
            request.match_info["namespace"], request.match_info["job"], identity.pod_uid, attempt
        )
        if standing is Standing.UNKNOWN:
            raise _Refusal(503, standing.value, 1)
        if standing is Standing.STRANGER:
            raise _Refusal(403, standing.value)

    async def _progress(self, request: web.Request) -> web.Response:
        identity = await self._admit(request)
        data = await request.read()
        try:
            body = ProgressBody.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "body"
            raise _Refusal(400, f"{place}: {first['msg']}") from error
        if body.pod_uid != identity.pod_uid:
            raise _Refusal(403, "podUID is not the pod of the token")
        self._check(request, identity, body.attempt)
        self._book.receive((request.match_info["namespace"], request.match_info["job"]), body, self._now())
        orders = self._board.open_for(body.pod_uid, body.acknowledged)
        return _answer(200, {"orders": orders, "reportEverySeconds": self._report_every})

    async def _orders(self, request: web.Request) -> web.Response:
        identity = await self._admit(request)
        query = request.query
        if query.get("podUID", identity.pod_uid) != identity.pod_uid:
            raise _Refusal(403, "podUID is not the pod of the token")
        try:
            after, wait = int(query.get("after", "0")), float(query.get("wait", "0"))
            attempt = int(query["attempt"]) if "attempt" in query else None
        except ValueError as error:
            raise _Refusal(400, "attempt and after are whole numbers, wait is a number of seconds") from error
        if not 0 <= wait <= LONGEST_WAIT or after < 0:
            raise _Refusal(400, f"wait is from 0 to {LONGEST_WAIT:g} seconds, after is not negative")
        self._check(request, identity, attempt)
        return _answer(200, {"orders": await self._board.wait(identity.pod_uid, after, wait)})
