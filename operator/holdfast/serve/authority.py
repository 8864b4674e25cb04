"""A certificate authority with elliptic-curve keys (P-256): it issues certificates for servers and clients.

The progress endpoint has one, and pods trust its certificate; the local cluster has another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SKEW = timedelta(minutes=5)  # clocks of two machines may differ by this much
NAME_LENGTH = 64  # characters of a common name: the limit of X.520


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both in PEM. `__repr__` keeps the key out of logs."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "KeyPair(...)"


class Authority:
    """Issues certificates. `pair` is the certificate and key of the authority itself."""

    def __init__(self, pair: KeyPair) -> None:
        """Raises ValueError if the PEM of `pair` cannot be read."""
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = serialization.load_pem_private_key(pair.key.encode(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the CA's key is not an elliptic-curve key")  # noqa: TRY004 - a bad value, not a bad call
        self._key = key

    @classmethod
    def create(cls, name: str, life: timedelta, *, organization: str = "", now: datetime | None = None) -> Self:
        """A new authority called `name`, valid for `life` from `now` on."""
        now = now or datetime.now(UTC)
        subject, key = _name(name, organization), new_key()
        certificate = (
            _builder(subject, subject, key.public_key(), now, now + life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(KeyPair(_pem(certificate), private_pem(key)))

    def issue(
        self,
        name: str,
        life: timedelta,
        *,
        organization: str = "",
        hosts: Sequence[str] = (),
        client: bool = False,
        now: datetime | None = None,
    ) -> KeyPair:
        """A certificate for `name`: for a server on `hosts` (DNS names, IP addresses), and for a client if `client`.

        It is valid for `life` from `now` on, and no longer than the authority's own certificate.
        """
        now = now or datetime.now(UTC)
        key = new_key()
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] * bool(hosts) + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        end = min(now + life, self._certificate.not_valid_after_utc)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(_name(name[:NAME_LENGTH], organization), self._certificate.subject, key.public_key(), now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = [_alternative(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), private_pem(key))


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new private key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The key as PEM, not encrypted."""
    format_ = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, format_, serialization.NoEncryption()).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(common_name: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


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


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
