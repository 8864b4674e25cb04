"""Options that say how a storage is reached."""

from typing import Annotated

import typer

Endpoint = Annotated[
    str | None,
    typer.Option(
        help="Address of the S3 server. Default: the job's, or $AWS_ENDPOINT_URL_S3, or AWS.", show_default=False
    ),
]
Region = Annotated[
    str | None, typer.Option(help="Region of the bucket. Default: the job's, or $AWS_REGION.", show_default=False)
]
