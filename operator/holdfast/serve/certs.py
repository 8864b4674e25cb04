"""The certificates of the progress endpoint: an own CA, and a serving certificate made from it."""

import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM. The key never appears in logs: see `__repr__`."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "KeyPair(...)"


def _name(common: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "holdfast"), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def make_ca(now: datetime | None = None) -> KeyPair:
    """A new CA on P-256, good for ten years."""
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("holdfast progress CA"))
        .issuer_name(_name("holdfast progress CA"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM).decode(), _pem(key))


def make_serving(ca: KeyPair, hosts: Iterable[str], now: datetime | None = None) -> KeyPair:
    """A certificate for these host names and IP addresses, good for a year, signed by the CA.

    Raises ValueError if the CA's PEM cannot be read.
    """
    now = now or datetime.now(UTC)
    issuer = x509.load_pem_x509_certificate(ca.certificate.encode())
    signer = serialization.load_pem_private_key(ca.key.encode(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA's key is not an elliptic-curve key")  # noqa: TRY004 - a bad value, not a bad call
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = list(dict.fromkeys(hosts))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(hosts[0][:64]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(min(now + SERVING_LIFE, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    chain = certificate.public_bytes(serialization.Encoding.PEM).decode() + ca.certificate
    return KeyPair(chain, _pem(key))


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def hosts_of(namespace: str, extra: Iterable[str] = ()) -> list[str]:
    """Every name under which the Service `holdfast` may be called, and the extra ones."""
    short = [f"holdfast.{namespace}{tail}" for tail in (".svc", ".svc.cluster.local", "")]
    return list(dict.fromkeys([*short, "holdfast", *extra]))


def server_context(pair: KeyPair) -> ssl.SSLContext:
    """A TLS 1.2+ context. The key is on disk only while it is loaded, readable by this user alone."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        file = Path(folder) / "pair.pem"
        file.touch(mode=0o600)
        file.write_text(pair.key + pair.certificate)
        context.load_cert_chain(file)
    return context
