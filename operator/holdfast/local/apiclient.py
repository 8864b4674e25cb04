"""The few requests that the local cluster makes to its own API server, with the administrator's certificate.

The operator's client (`holdfast.runtime.apiserver.client`) is for the operator; this one has no dependency and no loop.
"""

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from holdfast.local.errors import LocalError
from holdfast.local.layout import Layout
from holdfast.local.ports import HOST


class ApiClient:
    """Requests to the API server, one connection each."""

    def __init__(self, server: str, layout: Layout) -> None:
        self._address = urlsplit(server).netloc
        self._context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
        self._context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")

    def request(self, method: str, path: str, body: object = None, timeout: float = 5.0) -> Any:
        """The decoded JSON of the answer.

        Raises:
            LocalError: the server cannot be reached in `timeout` seconds, or answers with an error status.
        """
        status, text = self._send(method, path, body, timeout)
        if status >= 300:
            raise LocalError(f"{method} {path}: HTTP {status}: {_message(text)}")
        return json.loads(text)

    def is_ok(self, path: str, timeout: float = 1.0) -> bool:
        """Whether the server answers 200; False if it does not answer at all."""
        try:
            return self._send("GET", path, None, timeout)[0] == 200
        except LocalError:
            return False

    def _send(self, method: str, path: str, body: object, timeout: float) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(self._address, timeout=timeout, context=self._context)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"} if payload else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise LocalError(f"the API server at {self._address} does not answer: {error}") from error
        finally:
            connection.close()


def answers_ok(port: int, path: str, *, tls: bool, timeout: float = 1.0) -> bool:
    """Whether a server on loopback answers a GET with 200. With `tls`, its certificate is not checked.

    This is for health ports of parts that sign their own certificate; nothing is sent that anyone could steal.
    """
    connection: http.client.HTTPConnection
    if tls:
        context = ssl._create_unverified_context()  # noqa: S323 - see above
        connection = http.client.HTTPSConnection(HOST, port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
