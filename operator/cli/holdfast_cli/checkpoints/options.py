"""Arguments and options that the commands of `holdfast checkpoints` share."""

from typing import Annotated

import typer

from holdfast_cli.checkpoints.completion import checkpoints
from holdfast_cli.cluster import completion

Place = Annotated[
    str,
    typer.Argument(
        help="Name of a TrainingJob, or a storage address: s3://bucket/prefix, file:///folder, or a path with a slash, "
        "such as ./folder.",
        autocompletion=completion.jobs,
    ),
]
Chosen = Annotated[
    str,
    typer.Argument(help="A step, a name or the start of a name, or latest.", autocompletion=checkpoints),
]
First = Annotated[str, typer.Argument(metavar="A", help="One checkpoint, as for show.", autocompletion=checkpoints)]
Second = Annotated[str, typer.Argument(metavar="B", help="The other checkpoint.", autocompletion=checkpoints)]
