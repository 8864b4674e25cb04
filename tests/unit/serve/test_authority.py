"""What an authority issues is valid for the wanted use, name and time, and for nothing more."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.serve.authority import Authority, KeyPair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def load(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.encode())


@pytest.mark.parametrize(
    ("hosts", "client", "usages"),
    [
        ((), True, [ExtendedKeyUsageOID.CLIENT_AUTH]),
        (("a",), False, [ExtendedKeyUsageOID.SERVER_AUTH]),
        (("a",), True, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
    ],
)
def test_a_certificate_is_for_what_was_wanted(hosts: tuple[str, ...], client: bool, usages: list[object]) -> None:
    issued = load(Authority.create("ca", DAY).issue("a", DAY, hosts=hosts, client=client))
    assert list(issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == usages


def test_a_certificate_is_not_valid_longer_than_its_authority() -> None:
    authority = Authority.create("ca", DAY, now=NOW)
    assert load(authority.issue("a", 2 * DAY, client=True, now=NOW)).not_valid_after_utc == NOW + DAY


def test_an_authority_issues_again_from_its_pem() -> None:
    pair = Authority.create("ca", DAY).pair
    load(Authority(pair).issue("a", DAY, client=True)).verify_directly_issued_by(load(pair))


def test_a_common_name_is_cut_to_what_x520_allows() -> None:
    (name,) = load(Authority.create("ca", DAY).issue("n" * 70, DAY, client=True)).subject.get_attributes_for_oid(
        NameOID.COMMON_NAME
    )
    assert name.value == "n" * 64


def test_pem_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="PEM"):
        Authority(KeyPair("nothing", "nothing"))
