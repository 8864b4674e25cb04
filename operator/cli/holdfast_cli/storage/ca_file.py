"""The certificates of a CA that a job names, in a file on this machine: OpenSSL reads files."""

import base64
import binascii
import hashlib
import tempfile
from functools import cache
from pathlib import Path

from holdfast.api.s3 import CaSource
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.errors import CliError, ExitCode

HINT = "give the certificates of the CA with --ca FILE"


async def ca_file(client: Client, namespace: str, ca: CaSource) -> Path:
    """The file, which goes with this process. CliError if the object has no such key, or may not be read."""
    key, kind = (ca.config_map, "ConfigMap") if ca.config_map else (ca.secret, "Secret")
    assert key is not None  # exactly one is set
    what = f"the {kind} {namespace}/{key.name} with the CA of the job's storage"
    try:
        found = await client.request("GET", f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{key.name}")
    except ApiError as error:
        if error.status == 403:
            raise CliError(f"you may not read {what}", code=ExitCode.FORBIDDEN, hint=HINT) from error
        if error.status == 404:
            raise CliError(f"{what} does not exist", code=ExitCode.NOT_FOUND, hint=HINT) from error
        raise
    text = (found.get("data") or {}).get(key.key)
    if not text:
        raise CliError(f"{what} has no key {key.key}", code=ExitCode.NOT_FOUND, hint=HINT)
    try:
        content = base64.b64decode(text, validate=True) if ca.secret else text.encode()
    except binascii.Error as error:
        raise CliError(f"{what} cannot be read", hint=HINT) from error
    return _file(content)


@cache
def _file(content: bytes) -> Path:
    path = Path(_folder().name, hashlib.sha256(content).hexdigest())
    path.write_bytes(content)
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that is deleted with this process."""
    return tempfile.TemporaryDirectory(prefix="holdfast-ca-")
