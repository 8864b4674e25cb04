"""The way to an S3 server: what may be wrong with its CA, its proxy and its addressing, and what to correct."""

import ipaddress
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from botocore.exceptions import ProxyConnectionError, SSLError
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.ssl_match_hostname import CertificateError

from holdfast_protocol.settings import VIRTUAL
from holdfast_train.errors import (
    StorageInvalidError,
    StorageProxyFailedError,
    StorageUnreachableError,
    StorageUntrustedError,
)
from holdfast_train.storage.s3_server import S3Server

FIELD: Final = "spec.checkpoint.storage.s3"
MOST_CA_BYTES: Final = 1 << 20  # what a ConfigMap may hold
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d+)")  # of http.client, with the status of the proxy
# What every S3 server says in an answer. A list without it would mean that there is no checkpoint.
_SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "CompleteMultipartUpload": ("ETag",),
    "CreateMultipartUpload": ("UploadId",),
    "GetObject": ("ETag", "ContentLength"),
    "HeadObject": ("ETag", "ContentLength"),
    "ListMultipartUploads": ("IsTruncated",),
    "ListObjectsV2": ("IsTruncated",),
    "PutObject": ("ETag",),
    "UploadPart": ("ETag",),
}
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED


def check(server: S3Server, bucket: str, where: str) -> None:
    """StorageInvalidError and StorageUntrustedError if what is said of the server cannot work. No request is sent."""
    if server.addressing == VIRTUAL and ("." in bucket or _is_numeric(server.endpoint)):
        raise StorageInvalidError(
            f"{where}: {FIELD}.addressing is Virtual; allowed with a bucket without a dot, and with an endpoint that "
            "has a host name: choose others, or Path"
        )
    if server.ca is not None:
        _check_ca(server.ca, where)


def check_answer(where: str, *, http_response: Any, parsed: Mapping[str, Any], model: Any, **_: Any) -> None:
    """StorageUnreachableError if an answer is not that of an S3 server: a proxy, or a page that people should see, may
    answer any request with success. It is called as boto calls handlers of the event after-call.
    """
    missing = [name for name in _SAYS.get(model.name, ()) if name not in parsed]
    if http_response.status_code < 300 and missing:
        if body := parsed.get("Body"):
            body.close()
        raise StorageUnreachableError(
            f"{where}: the answer to {model.name} lacks {missing[0]}, which every S3 server sends: something answers "
            f"in its place; check {FIELD}.endpoint if this lasts"
        )


def _check_ca(path: str, where: str) -> None:
    wrong = f"{where}: the CA of {FIELD}.ca cannot be read from {path}"
    try:
        if (size := Path(path).stat().st_size) > MOST_CA_BYTES:
            raise StorageUntrustedError(f"{wrong}: it has {size} bytes; allowed: at most {MOST_CA_BYTES}")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as error:  # an ssl.SSLError is one too
        raise StorageUntrustedError(f"{wrong}: {error}; allowed: certificates in PEM") from error


def _is_numeric(endpoint: str | None) -> bool:
    """True if the host of the endpoint is an IP address."""
    try:
        ipaddress.ip_address(urlsplit(endpoint or "").hostname or "")
    except ValueError:
        return False
    return True


def unreachable(error: Exception, server: S3Server, where: str) -> StorageUnreachableError | StorageUntrustedError:
    """What it means that a request got no answer."""
    if isinstance(error, SSLError):
        outer = error.kwargs["error"]  # of urllib3, around the one of Python's ssl, or of its own comparison of names
        inner = outer.args[0] if outer.args else outer
        if isinstance(inner, ssl.SSLCertVerificationError | CertificateError):
            return StorageUntrustedError(f"{where}: {_untrusted(inner, server, error.kwargs['endpoint_url'])}")
    elif isinstance(error, ProxyConnectionError):
        inner = error.kwargs["error"].original_error
        found = _TUNNEL.search(str(inner))
        if found is not None and found[1].startswith("4"):
            return refused_by_proxy(str(inner), server, where)
        through = f"the proxy {_shown(server.proxy)} of {FIELD}.proxy"
        if isinstance(inner, NewConnectionError | ConnectTimeoutError):
            return StorageProxyFailedError(f"{where}: {through} cannot be reached: {inner}")
        return StorageUnreachableError(f"{where} cannot be reached through {through}: {inner}")
    return StorageUnreachableError(f"{where} cannot be reached: {error}")


def refused_by_proxy(answer: str, server: S3Server, where: str) -> StorageProxyFailedError:
    """The error for a proxy that does not let a request through."""
    return StorageProxyFailedError(
        f"{where}: the proxy {_shown(server.proxy)} of {FIELD}.proxy refuses: {answer}; it has to let pods through, "
        "without a password"
    )


def _untrusted(error: Exception, server: S3Server, url: str) -> str:
    """Why the certificate is not trusted, and what to correct."""
    said = f"the certificate of {urlsplit(url).netloc} is not trusted: {getattr(error, 'verify_message', error)}"
    if isinstance(error, CertificateError):
        return f"{said}; {FIELD}.endpoint has to have a name that is in the certificate"
    if getattr(error, "verify_code", None) == _EXPIRED:
        return f"{said}; the server needs a new one"
    if server.ca is None:
        return f"{said}; if a private CA has signed it, name that in {FIELD}.ca"
    return f"{said}; {FIELD}.ca ({server.ca}) has to have the CA that has signed it"


def _shown(proxy: str | None) -> str:
    """The address without user and password, which that of a person may have."""
    return re.sub(r"//[^/]*@", "//", proxy or "")
