"""The CA of the progress endpoint, kept in a Secret."""

import asyncio
import base64
import logging

from holdfast.api import names
from holdfast.api.rbac import SERVING_SECRET
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester
from holdfast.runtime.errors import ApiError, ConfigurationError
from holdfast.serve.authority import KeyPair
from holdfast.serve.certs import make_ca

log = logging.getLogger(__name__)

CA_CERTIFICATE, CA_PRIVATE = "ca.crt", "ca.key"
RETRY = 2.0  # seconds


async def read_or_create_ca(client: Requester, namespace: str) -> KeyPair:
    """The CA from Secret `holdfast-serving`, created at the first start. Two operators that start at once use the same.

    Waits while the API server does not answer. Raises ConfigurationError if the Secret has other content.
    """
    while True:
        try:
            return await _read_or_create(client, namespace)
        except ApiError as error:
            if not error.transient and not error.already_exists and not error.not_found:
                raise
            log.warning("cannot read or create Secret %s/%s yet: %s", namespace, SERVING_SECRET, error)
            await asyncio.sleep(RETRY)


async def _read_or_create(client: Requester, namespace: str) -> KeyPair:
    try:
        secret = await client.request("GET", paths.core(namespace, "secrets", SERVING_SECRET))
    except ApiError as error:
        if not error.not_found:
            raise
        pair = make_ca()
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SERVING_SECRET, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}},
            "type": "Opaque",
            "data": {CA_CERTIFICATE: _encode(pair.certificate), CA_PRIVATE: _encode(pair.key)},
        }
        try:
            secret = await client.request("POST", paths.core(namespace, "secrets"), body=manifest)
        except ApiError as clash:
            if not clash.already_exists:
                raise
            secret = await client.request("GET", paths.core(namespace, "secrets", SERVING_SECRET))
    data = secret.get("data") or {}
    try:
        return KeyPair(_decode(data[CA_CERTIFICATE]), _decode(data[CA_PRIVATE]))
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            f"Secret {namespace}/{SERVING_SECRET} must have the keys {CA_CERTIFICATE} and {CA_PRIVATE}, in base64;"
            " delete the Secret, and the operator creates a new CA"
        ) from error


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decode(text: str) -> str:
    return base64.b64decode(text, validate=True).decode()
