"""Which files look like secrets: by their names, and by what is at their beginning."""

import re
from typing import Final

HEAD_BYTES: Final = 64 << 10
_ENV: Final = (".env.example", ".env.sample", ".env.template")
_NAMES: Final = (".env", ".netrc", ".pypirc", ".npmrc", ".git-credentials", ".bash_history", ".zsh_history")
_KEYS: Final = (".pem", ".key", ".p12", ".pfx", ".jks")
_BESIDE: Final = 400  # bytes between an access key's id and its secret
# With key material after it: programs and their tests have the first line alone. In JSON a line's end is a backslash
# and an n.
_PEM: Final = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\r|\\n|\s|[A-Za-z-]+: [^\n]*\n){1,40}[A-Za-z0-9+/=]{32}"
)
_AWS: Final = re.compile(rb"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z2-7]{16}(?![A-Z0-9])")
_AWS_SECRET: Final = re.compile(rb"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_HEX: Final = re.compile(rb"[0-9a-f]{40}|[0-9A-F]{40}")  # hashes of git
_KUBE: Final = re.compile(rb"""(?m)["']?\bkind["']?\s*:\s*["']?Config\b""")
_KUBE_KEY: Final = re.compile(rb"""["']?\b(?:client-key-data|token|password)["']?\s*:\s*["']?[^\s"'{]{8}""")
_TOKEN: Final = re.compile(  # of Hugging Face, GitHub, GitLab, npm, Slack
    rb"\b(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20,}"
    rb"|npm_[A-Za-z0-9]{36,}|xox[abprs]-[A-Za-z0-9-]{20,})"
)
_AWS_NAMED: Final = re.compile(rb"(?i)\baws_secret_access_key[\"']?\]?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{30,}")
_GCP: Final = re.compile(rb'"type"\s*:\s*"service_account"')


def of_name(name: str) -> str:
    """What a file of this name may contain; "" if the name says nothing."""
    if name in _NAMES or (name.startswith(".env.") and name not in _ENV):
        return "passwords"
    return "keys" if name.endswith(_KEYS) else ""


def of_content(head: bytes) -> str:
    """Which secret is in `head`, the first HEAD_BYTES of a file; "" if there is none."""
    if b"PRIVATE KEY" in head and _PEM.search(head):
        return "a service account's key" if _GCP.search(head) else "a private key"
    if _TOKEN.search(head):
        return "an access token"
    if ((b"AKIA" in head or b"ASIA" in head) and _has_aws_key(head)) or _AWS_NAMED.search(head):
        return "an access key of AWS"
    if b"Config" in head and _KUBE.search(head) and _KUBE_KEY.search(head):
        return "a kubeconfig with a key"
    return ""


def _has_aws_key(head: bytes) -> bool:
    """True if an id has a secret beside it. Ids of the documentation end in EXAMPLE."""
    for found in _AWS.finditer(head):
        if not found[0].endswith(b"EXAMPLE"):
            beside = head[max(0, found.start() - _BESIDE) : found.end() + _BESIDE]
            if any(not _HEX.fullmatch(one[0]) for one in _AWS_SECRET.finditer(beside)):
                return True
    return False
