"""`-o`: the answer of a command for programs, in the formats of kubectl."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import typer
import yaml

Format = Literal["json", "yaml"]
ListFormat = Literal["json", "yaml", "name", "wide"]

Output = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="Print the answer as json or yaml.", show_choices=False, show_default=False),
]
ListOutput = Annotated[
    ListFormat | None,
    typer.Option(
        "--output",
        "-o",
        help="Print the answer as json or yaml, only names, or a table with all columns (wide).",
        show_choices=False,
        show_default=False,
    ),
]
_FOR_PROGRAMS: Final = ("json", "yaml", "name")


def is_for_programs(output: ListFormat | None) -> bool:
    """True if nothing but the answer may be on standard output."""
    return output in _FOR_PROGRAMS


def write(output: ListFormat | None, data: Any, names: Sequence[str] = ()) -> bool:
    """Print `data`, or its `names`, as `output` asks for; False if it asks for what people read."""
    match output:
        case "json":
            typer.echo(json.dumps(data, indent=2))
        case "yaml":
            plain = json.loads(json.dumps(data))  # enumerations become texts
            typer.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120), nl=False)
        case "name":
            typer.echo("".join(f"{name}\n" for name in names), nl=False)
    return is_for_programs(output)
