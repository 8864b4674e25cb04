"""How an S3 server is reached: what the storage of checkpoints and that of data have in common."""

import re
from typing import ClassVar, Final

from holdfast.api.model import Model
from holdfast.api.rules import Rule, exactly_one
from holdfast.api.strings import DataKey, Endpoint, ObjectName, Proxy, Region
from holdfast_protocol.settings import VIRTUAL, Addressing

_NUMERIC: Final = "^https?://([0-9.]+|.+])(:|/|$)"  # an endpoint whose host is an IP address


class CaKey(Model):
    """A key with certificates, in an object in the job's namespace."""

    name: ObjectName
    """Name of the ConfigMap or Secret."""
    key: DataKey = "ca.crt"
    """Key with the certificates in PEM, one or several."""


class CaSource(Model):
    """Where the certificates of a CA are. Set exactly one field."""

    config_map: CaKey | None = None
    """They are in a ConfigMap."""
    secret: CaKey | None = None
    """They are in a Secret."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one("configMap", "secret"),)


class S3Server(Model):
    """How an S3 server is reached. Variables of the program, such as AWS_CA_BUNDLE or HTTPS_PROXY, do not count."""

    endpoint: Endpoint | None = None
    """Address of an S3 server other than AWS, such as https://minio.example:9000. Default: AWS."""
    region: Region = "us-east-1"
    """Region of the bucket."""
    credentials_secret: ObjectName | None = None
    """Name of a Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and optionally AWS_SESSION_TOKEN.
    A running pod uses new values a minute or two after they are in the Secret. Leave it out if the pod has its own
    cloud identity."""
    ca: CaSource | None = None
    """The CA of the server's certificate, if it is not a public one. The server is then trusted by this CA only. Every
    attempt reads the certificates as they are at its start. Default: the public CAs."""
    proxy: Proxy | None = None
    """Address of the HTTP proxy through which every request to the server goes, such as http://proxy.example:3128. A
    proxy that wants a password is not supported. Default: no proxy."""
    addressing: Addressing = "Auto"
    """Where requests name the bucket. Path: after the host, as https://minio.example/bucket. Virtual: before it, as
    https://bucket.oss.example; the server must have a host name, and the bucket no dot. Auto: Path if endpoint is set;
    on AWS, Virtual for every bucket without a dot."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="ca needs an endpoint that starts with https://: without TLS there is no certificate to trust",
            cel="!has(self.ca) || !has(self.endpoint) || self.endpoint.startsWith('https://')",
            is_met=lambda s3: s3.ca is None or s3.endpoint is None or s3.endpoint.startswith("https://"),
            got_cel="self.endpoint",
            got=lambda s3: s3.endpoint,
            field=".endpoint",
        ),
        Rule(
            allowed="addressing Virtual needs an endpoint with a host name, to which the bucket can be added",
            cel=f"self.addressing != 'Virtual' || !has(self.endpoint) || !self.endpoint.matches('{_NUMERIC}')",
            is_met=lambda s3: s3.addressing != VIRTUAL or not re.match(_NUMERIC, s3.endpoint or ""),
            got_cel="self.endpoint",
            got=lambda s3: s3.endpoint,
            field=".endpoint",
        ),
    )
