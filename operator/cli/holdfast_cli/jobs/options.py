"""Options that several commands about jobs share."""

from typing import Annotated

import typer

History = Annotated[
    bool,
    typer.Option(
        "--history",
        help="Show the loss over all attempts. It is read from the job's storage, with the keys in the job's Secret if "
        "you may read it, otherwise with your own. Those go to an endpoint of the job only if --endpoint names it.",
    ),
]
