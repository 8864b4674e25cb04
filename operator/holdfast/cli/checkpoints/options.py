"""Arguments and options that the commands of `holdfast checkpoints` share."""

from typing import Annotated

import typer

from holdfast.cli.checkpoints.completion import checkpoints
from holdfast.cli.cluster import completion

Place = Annotated[
    str,
    typer.Argument(
        help="Name of a TrainingJob, or where a storage is: s3://bucket/prefix, file:///folder, or a path that has a "
        "slash, such as ./folder.",
        autocompletion=completion.jobs,
    ),
]
Chosen = Annotated[
    str,
    typer.Argument(
        help="Which checkpoint: its step, its name or the start of it, or latest.", autocompletion=checkpoints
    ),
]
First = Annotated[str, typer.Argument(metavar="A", help="One checkpoint: see show.", autocompletion=checkpoints)]
Second = Annotated[str, typer.Argument(metavar="B", help="The other one.", autocompletion=checkpoints)]
Endpoint = Annotated[
    str | None,
    typer.Option(
        help="Address of the S3 server. Else that of the job, or $AWS_ENDPOINT_URL_S3, or AWS.", show_default=False
    ),
]
Region = Annotated[
    str | None, typer.Option(help="Region of the bucket. Else that of the job, or $AWS_REGION.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
