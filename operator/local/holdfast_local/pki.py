"""The certificates and keys of the local cluster, as files in one folder."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from holdfast.serve.authority import Authority, KeyPair, new_key, private_pem

_LIFE = timedelta(days=365)


@dataclass(frozen=True)
class KeyFiles:
    """Paths of a certificate and its key, PEM."""

    cert: Path
    key: Path


class Pki:
    """Writes certificates and keys into one folder, mode 0700; keys have mode 0600. `cert`: the CA's certificate.

    The authority of a folder that has one goes on.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self.cert, key = folder / "ca.crt", folder / "ca.key"
        if key.exists():
            self._authority = Authority(KeyPair(self.cert.read_text(), key.read_text()))
            return
        self._authority = Authority.create("holdfast-local-ca", _LIFE)
        self.cert.write_text(self._authority.pair.certificate)
        _write_key(key, self._authority.pair.key)

    def issue(self, name: str, common_name: str, organization: str = "", hosts: tuple[str, ...] = ()) -> KeyFiles:
        """Write `name`.crt and `name`.key: for a client, and with `hosts` (DNS names, addresses) for a server too."""
        pair = self._authority.issue(common_name, _LIFE, organization=organization, hosts=hosts, client=True)
        files = KeyFiles(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        files.cert.write_text(pair.certificate)
        _write_key(files.key, pair.key)
        return files

    def signing_key(self, name: str) -> tuple[Path, Path]:
        """Write a key pair without a certificate, for service-account tokens. Returns (private, public)."""
        key = new_key()
        private, public = self._folder / f"{name}.key", self._folder / f"{name}.pub"
        _write_key(private, private_pem(key))
        public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        return private, public


def _write_key(path: Path, pem: str) -> None:
    path.touch(mode=0o600)
    path.write_text(pem)
