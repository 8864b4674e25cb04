import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from holdfast.serve import certs


async def handshake(context: ssl.SSLContext, trust: str, host: str) -> str:
    client = ssl.create_default_context(cadata=trust)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=host)
        version = writer.get_extra_info("ssl_object").version()
        writer.close()
        return str(version)
    finally:
        server.close()


@pytest.mark.parametrize("host", ["holdfast.team.svc", "holdfast.team.svc.cluster.local", "127.0.0.1", "example.org"])
async def test_a_client_that_trusts_the_ca_accepts_every_name(host: str) -> None:
    ca = certs.make_ca()
    pair = certs.make_serving(ca, certs.service_hosts("team", ["127.0.0.1", "example.org"]))
    assert (await handshake(certs.server_context(pair), ca.certificate, host)).startswith("TLSv1.")


async def test_another_name_or_another_ca_is_refused() -> None:
    ca = certs.make_ca()
    context = certs.server_context(certs.make_serving(ca, certs.service_hosts("team")))
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(context, ca.certificate, "evil.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(context, certs.make_ca().certificate, "holdfast.team.svc")


def test_lifetimes() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ca = certs.make_ca(now)
    own = x509.load_pem_x509_certificate(ca.certificate.encode())
    served = x509.load_pem_x509_certificate(certs.make_serving(ca, ["h"], now).certificate.encode())
    assert own.not_valid_after_utc - now == timedelta(days=3650)
    assert served.not_valid_after_utc - now == timedelta(days=365)


def test_a_key_shows_in_no_repr_and_stays_on_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = certs.make_serving(certs.make_ca(), ["h"])
    assert "PRIVATE" not in repr(pair)
    certs.server_context(pair)
    assert list(tmp_path.iterdir()) == []
