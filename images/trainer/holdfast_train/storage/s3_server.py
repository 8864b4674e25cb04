"""How an S3 server is reached. Variables of a program for its own data, such as AWS_CA_BUNDLE, do not count."""

import os
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlsplit

from holdfast_protocol.settings import Addressing, Data, Settings
from holdfast_train.environment import Credentials

_AWS: Final = "https://s3.amazonaws.com"


class S3Options(TypedDict, total=False):
    """Fields of S3Server that somebody may give; None is not given."""

    endpoint: str | None
    region: str | None
    credentials: Credentials | None
    ca: str | None
    proxy: str | None
    addressing: Addressing | None


@dataclass(frozen=True)
class S3Server:
    """One server. `ca`: a file with the only certificates that it is trusted by, None for public ones.

    `endpoint`: None is AWS. `proxy`: the address of an HTTP proxy, None for no proxy.
    """

    endpoint: str | None = None
    region: str | None = None
    credentials: Credentials = field(default_factory=Credentials)
    ca: str | None = None
    proxy: str | None = None
    addressing: Addressing = "Auto"

    @property
    def style(self) -> str:
        """Boto's word for the addressing. Own servers rarely have a DNS name for each bucket; AWS prefers DNS names."""
        if self.addressing == "Auto":
            return "path" if self.endpoint else "auto"
        return self.addressing.lower()

    def with_options(self, **given: Unpack[S3Options]) -> "S3Server":
        """The same server, with these fields in place of its own."""
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return replace(self, **changes)

    @classmethod
    def of_checkpoints(cls, settings: Settings, credentials: Credentials) -> "S3Server":
        """That of the job's checkpoints, in its pod."""
        return cls(
            settings.checkpoint_endpoint, settings.checkpoint_region, credentials,
            settings.checkpoint_ca, settings.checkpoint_proxy, settings.checkpoint_addressing,
        )  # fmt: skip

    @classmethod
    def of_data(cls, data: Data) -> "S3Server":
        """That of an entry of trainer.data, in a pod."""
        return cls(data.endpoint, data.region, Credentials(folder=data.keys), data.ca, data.proxy, data.addressing)

    @classmethod
    def of_person(cls, endpoint: str | None) -> "S3Server":
        """The server at `endpoint`, as the person reaches it whose environment this is.

        AWS_REGION, AWS_DEFAULT_REGION and AWS_CA_BUNDLE count, HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and what boto3
        finds as credentials.
        """
        from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - no training pod needs it, and its import is slow

        url = urlsplit(endpoint or _AWS)
        proxies = {} if proxy_bypass(url.netloc) else getproxies()
        region, ca = _first("AWS_REGION", "AWS_DEFAULT_REGION"), _first("AWS_CA_BUNDLE")
        return cls(endpoint, region, Credentials(), ca, proxies.get(url.scheme))


def endpoint_of_person() -> str | None:
    """The endpoint that the environment of a person names, None for AWS."""
    return _first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def _first(*names: str) -> str | None:
    """The value of the first of these variables that is set."""
    return next((value for name in names if (value := os.environ.get(name))), None)
