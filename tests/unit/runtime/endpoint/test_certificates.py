"""Certificates are renewed under a server that goes on."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509

from holdfast.runtime.endpoint.certificates import RENEWED_AFTER, Certificates
from holdfast.serve.authority import SKEW
from holdfast.serve.certs import SERVING_LIFE, make_ca

BEGIN = datetime.now(UTC).replace(microsecond=0)


class Clock:
    """A clock that a test sets."""

    now = BEGIN

    def __call__(self) -> datetime:
        return self.now


async def _shown(context: ssl.SSLContext, client: ssl.SSLContext) -> x509.Certificate:
    """The certificate that a new connection is shown."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="here")
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
    return x509.load_der_x509_certificate(shown)


async def test_a_server_shows_a_new_certificate_before_the_old_one_ends() -> None:
    """Breaks if an operator that runs for a year refuses all reports after it."""
    clock, ca = Clock(), make_ca(BEGIN - timedelta(days=1))
    certificates = Certificates(ca, clock)
    context = certificates.context(["here"])
    anyone = ssl.create_default_context()  # the new one is not valid yet by the clock of this machine
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    first = await _shown(context, anyone)

    clock.now = BEGIN + RENEWED_AFTER - timedelta(seconds=1)
    certificates.renew_if_due()
    assert await _shown(context, anyone) == first

    clock.now = BEGIN + RENEWED_AFTER
    certificates.renew_if_due()
    later = await _shown(context, anyone)
    assert later.not_valid_after_utc == clock.now + SERVING_LIFE
    later.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.certificate.encode()))


async def test_a_clock_that_is_set_back_makes_new_certificates() -> None:
    """Breaks if a certificate that is not valid yet is shown until the clock has come there again."""
    clock, ca = Clock(), make_ca(BEGIN - timedelta(days=1))
    clock.now = BEGIN + 2 * SKEW
    certificates = Certificates(ca, clock)
    context = certificates.context(["here"])

    clock.now = BEGIN
    certificates.renew_if_due()

    trusting = ssl.create_default_context(cadata=ca.certificate)
    assert (await _shown(context, trusting)).not_valid_after_utc == BEGIN + SERVING_LIFE
