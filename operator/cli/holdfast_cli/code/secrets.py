"""Files that look like secrets, by their content. Pure."""

import re
from typing import Final

LOOKS_AT: Final = 64 << 10  # bytes from the start of a file
_PATTERNS: Final = (
    re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    re.compile(rb'"type":\s*"service_account"[\s\S]*"private_key"'),
    re.compile(rb"^\s*aws_secret_access_key\s*=\s*\S{16,}", re.MULTILINE | re.IGNORECASE),
    re.compile(rb"^\s*(?:client-key-data|token):\s*\S{16,}", re.MULTILINE),  # of a kubeconfig
)
_KUBECONFIG: Final = re.compile(rb"^kind:\s*Config\s*$", re.MULTILINE)


def looks_secret(start: bytes) -> bool:
    """True if a file that begins with `start` has a private key, a key of a cloud, or a way into a cluster."""
    *others, of_kubeconfig = _PATTERNS
    if any(pattern.search(start) for pattern in others):
        return True
    return bool(_KUBECONFIG.search(start) and of_kubeconfig.search(start))
