"""How a pod calls the operator's progress endpoint: its launcher, and `Run` through `Reporter`."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import re
import socket
import ssl
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast_protocol.settings import Settings

MAX_ANSWER = 1 << 20
FIRST_BACK_OFF = 0.5  # seconds
LONGEST_BACK_OFF = 15.0
LONGEST_WISH = 60.0  # seconds that the operator may ask for in Retry-After
_JITTER = random.SystemRandom()  # not the global generator: its numbers belong to the program
SHOWN = 200  # characters of what the operator says of a request that it refuses


class BackOff:
    """The pauses between calls, in seconds."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def after(self, *, was_good: bool, at_least: float = 0.0) -> float:
        """The pause after a call: none after a good one; after others it grows. `at_least`: what the operator wants.

        The pauses of many pods differ, so that they do not all call in the same moment.
        """
        self._seconds = 0.0 if was_good else min(LONGEST_BACK_OFF, max(FIRST_BACK_OFF, self._seconds * 2))
        return min(at_least, LONGEST_WISH) + min(LONGEST_BACK_OFF, self._seconds * _JITTER.uniform(0.5, 1.5))


class Target(NamedTuple):
    """Where the endpoint is, for which job, and how the pod proves who it is."""

    url: str
    namespace: str
    job: str
    token_file: str | None
    ca_file: str | None

    @classmethod
    def of(cls, settings: Settings, namespace: str, job: str) -> Target:
        """The endpoint that the settings of a pod name."""
        return cls(settings.operator_url or "", namespace, job, settings.token_file, settings.ca_file)


class Answer(NamedTuple):
    """`body`: decoded JSON, None unless `status` is 200. `retry_after`: seconds before the next try, 0 if not said.

    `refusal`: the status, and what the operator says of it, for people; empty if `status` is 200.
    """

    status: int
    body: Any
    retry_after: int
    refusal: str


class Connection:
    """One keep-alive HTTPS connection for one thread. The token is read for every request: the kubelet renews it.

    `timeout`: seconds, for each answer.
    """

    def __init__(self, target: Target, timeout: float) -> None:
        url = urllib.parse.urlsplit(target.url)
        self._host, self._port = url.hostname or "", url.port
        self._tls = url.scheme != "http"
        self._names = {"namespace": urllib.parse.quote(target.namespace), "job": urllib.parse.quote(target.job)}
        self._root = url.path.rstrip("/")
        self._token_file, self._ca_file = target.token_file, target.ca_file
        self._timeout = timeout
        self._open: http.client.HTTPConnection | None = None
        self._is_aborted = False

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Answer:
        """The answer to one request: `path` is one of `holdfast_protocol.endpoint`.

        OSError, HTTPException or ValueError if there is none.
        """
        path = self._root + path.format_map(self._names) + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {"Content-Type": "application/json"}
        if self._token_file:
            headers["Authorization"] = f"Bearer {Path(self._token_file).read_text(encoding='utf-8').strip()}"
        data = None if body is None else json.dumps(body).encode()
        reused = self._open is not None
        try:
            return self._try(method, path, data, headers)
        except (http.client.HTTPException, ConnectionError):
            self.close()
            if not reused:
                raise
        return self._try(method, path, data, headers)  # the server had closed the idle connection: try a new one

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def abort(self) -> None:
        """End the request that another thread waits for: its `call` raises an error, and so does each later one."""
        self._is_aborted = True
        found = self._open
        if found is not None and found.sock is not None:
            with contextlib.suppress(OSError):  # not by the method of an SSL socket, which the other thread uses now
                socket.socket.shutdown(found.sock, socket.SHUT_RDWR)

    def _connect(self) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        context = ssl.create_default_context(cafile=self._ca_file)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)

    def _try(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        try:
            if self._is_aborted:
                raise ConnectionAbortedError("this connection is not used any more")
            if self._open is None:
                self._open = self._connect()
            self._open.request(method, path, body=data, headers=headers)
            answer = self._open.getresponse()
            text = answer.read(MAX_ANSWER)
            decoded = json.loads(text) if text and answer.status == 200 else None
            said = answer.getheader("Retry-After", "")
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            raise
        refusal = "" if answer.status == 200 else _refusal(answer.status, text)
        return Answer(answer.status, decoded, int(said) if re.fullmatch(r"\d{1,4}", said) else 0, refusal)


def _refusal(status: int, text: bytes) -> str:
    """`HTTP status 400: sender: Field required`; what a proxy says is left out, since it may be a whole page."""
    try:
        said = " ".join(json.loads(text)["error"].split())[:SHOWN]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        said = ""
    return f"HTTP status {status}: {said}" if said and said.isprintable() else f"HTTP status {status}"
