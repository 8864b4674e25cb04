"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast_cli.cluster import completion

Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Kubeconfig file. Default: $KUBECONFIG, or ~/.kube/config.", show_default=False),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace. Default: that of the current context.",
        autocompletion=completion.namespaces,
        show_default=False,
    ),
]
Job = Annotated[str, typer.Argument(help="Name of a TrainingJob.", autocompletion=completion.jobs)]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds to wait for the outcome.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Send the request and do not wait for the outcome.")]
