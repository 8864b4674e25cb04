"""Certificates that clients accept, and keys that only their owner can read."""

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast_local.pki import Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_server_certificate_names_its_hosts_and_is_signed_by_the_authority(pki: Pki) -> None:
    cert = load(pki.issue("server", "kube-apiserver", hosts=("127.0.0.1", "localhost")).cert)
    cert.verify_directly_issued_by(load(pki.cert))
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(host) for host in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]


def test_a_client_certificate_has_user_and_group_and_cannot_serve(pki: Pki) -> None:
    cert = load(pki.issue("admin", "ada", "system:masters").cert)
    assert cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "ada"
    assert cert.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"
    usage = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_no_key_is_readable_by_others(pki: Pki) -> None:
    pki.issue("admin", "ada")
    pki.signing_key("service-accounts")
    folder = pki.cert.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(key.stat().st_mode) for key in folder.glob("*.key")} == {0o600}


def test_a_signing_key_and_its_public_half_belong_together(pki: Pki) -> None:
    private, public = pki.signing_key("service-accounts")
    key = load_pem_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert load_pem_public_key(public.read_bytes()) == key.public_key()


def test_a_folder_that_has_an_authority_keeps_it(pki: Pki, tmp_path: Path) -> None:
    """Breaks if a certificate for a node that comes later is not trusted by the API server."""
    before = pki.cert.read_bytes()
    later = Pki(tmp_path / "pki")
    assert later.cert.read_bytes() == before
    load(later.issue("later", "later").cert).verify_directly_issued_by(load(pki.cert))
