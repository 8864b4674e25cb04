"""The certificates of the progress endpoint: the operator's own CA, and a serving certificate that it signs."""

import ssl
import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from holdfast.serve.authority import Authority, KeyPair

CA_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
ORGANIZATION = "holdfast"


def make_ca(now: datetime | None = None) -> KeyPair:
    """A new CA, valid for ten years."""
    return Authority.create("holdfast progress CA", CA_LIFE, organization=ORGANIZATION, now=now).pair


def make_serving(ca: KeyPair, hosts: Iterable[str], now: datetime | None = None) -> KeyPair:
    """A certificate for these host names and IP addresses, signed by the CA, valid for a year; the CA's follows it.

    Raises ValueError if the CA's PEM cannot be read.
    """
    names = list(dict.fromkeys(hosts))
    pair = Authority(ca).issue(names[0], SERVING_LIFE, organization=ORGANIZATION, hosts=names, now=now)
    return KeyPair(pair.certificate + ca.certificate, pair.key)


def service_hosts(namespace: str, extra: Iterable[str] = ()) -> list[str]:
    """Every DNS name of the Service `holdfast` in this namespace, and the extra names."""
    short = [f"holdfast.{namespace}{tail}" for tail in (".svc", ".svc.cluster.local", "")]
    return list(dict.fromkeys([*short, "holdfast", *extra]))


def server_context(pair: KeyPair) -> ssl.SSLContext:
    """A context for TLS 1.2 and newer that shows this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show(context, pair)
    return context


def show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Let connections that begin from now on see this certificate; those that there are go on.

    The key is on disk only while it is loaded, readable by this user only.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        file = Path(folder) / "pair.pem"
        file.touch(mode=0o600)
        file.write_text(pair.key + pair.certificate)
        context.load_cert_chain(file)
