"""Options that say how a storage is reached."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast_protocol import settings

Endpoint = Annotated[
    str | None,
    typer.Option(
        help="Address of the S3 server. Default: the job's, or $AWS_ENDPOINT_URL_S3, or AWS.", show_default=False
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        help="Certificates of the S3 server's CA, in PEM. Default: the job's, or $AWS_CA_BUNDLE, or public CAs.",
        metavar="FILE",
        show_default=False,
    ),
]
Proxy = Annotated[
    str | None,
    typer.Option(
        help="HTTP proxy to the S3 server, or none. Default: the job's (not with --endpoint), or $HTTPS_PROXY and "
        "$NO_PROXY.",
        metavar="URL",
        show_default=False,
    ),
]
Addressing = Annotated[
    settings.Addressing | None,
    typer.Option(help="Where requests name the bucket. Default: the job's, or Auto.", show_default=False),
]
Region = Annotated[
    str | None, typer.Option(help="Region of the bucket. Default: the job's, or $AWS_REGION.", show_default=False)
]
