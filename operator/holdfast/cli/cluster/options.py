"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.cluster import completion

Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Kubeconfig file. Else $KUBECONFIG, else ~/.kube/config.", show_default=False),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace. Else that of the kubeconfig's current context.",
        autocompletion=completion.namespaces,
        show_default=False,
    ),
]
Job = Annotated[str, typer.Argument(help="Name of a TrainingJob.", autocompletion=completion.jobs)]
Timeout = Annotated[float, typer.Option(min=1, help="How many seconds to wait for it.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Ask, and do not wait for what comes of it.")]
