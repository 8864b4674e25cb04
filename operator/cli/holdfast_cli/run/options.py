"""The options of `holdfast run`, and what they say together."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.api.errors import shown
from holdfast_cli.cluster import completion
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.run.sources import parsed, storage_from
from holdfast_cli.run.wanted import Wanted


def option(text: str, *names: str, metavar: str | None = None, **more: Any) -> Any:
    """An option without a default of its own: a file or the profile may say it too."""
    return typer.Option(*names, help=text, metavar=metavar, show_default=False, **more)


Command = Annotated[
    list[str] | None, typer.Argument(help="The program and its arguments, after --.", show_default=False)
]
Dir = Annotated[Path, option("Folder of the program.", "--dir", metavar="DIR", exists=True, file_okay=False)]
Name = Annotated[str | None, option("Name of the job. Default: that of the program, and five letters.", "--name")]
Image = Annotated[str | None, option("Container image. Default: that of the profile.")]
Profile = Annotated[
    str | None, option("CapacityProfile with the tiers. Default: the only one.", autocompletion=completion.profiles)
]
Nodes = Annotated[int | None, option("Number of nodes that train together.", min=1)]
Gpus = Annotated[int | None, option("Accelerators of each node. Default: 1; 0: none is needed.", min=0)]
Cpu = Annotated[str | None, option("Processor cores of each node, such as 16.")]
Memory = Annotated[str | None, option("Memory of each node, such as 120Gi.")]
Deadline = Annotated[str | None, option("When the training must be over: 3d from now, or a moment.", metavar="TIME")]
Budget = Annotated[str | None, option("The most that the training may cost.", metavar="AMOUNT")]
Every = Annotated[str | None, option("When a checkpoint is saved, such as 10m, '500 steps' or auto.")]
Steps = Annotated[int | None, option("Length of the training, for percent and ETA.", min=1)]
Env = Annotated[list[str] | None, option("Environment variable; may be repeated.", "--env", "-e", metavar="NAME=VALUE")]
Secret = Annotated[
    list[str] | None, option("Secret whose keys become environment variables; may be repeated.", metavar="NAME")
]
Data = Annotated[
    list[str] | None,
    option(
        "Data that is copied into each pod, such as s3://sets/faces=/data/faces; may be repeated.", metavar="FROM=TO"
    ),
]
Storage = Annotated[str | None, option("Where checkpoints and code are stored: s3://BUCKET/PREFIX.", metavar="ADDRESS")]
StorageEndpoint = Annotated[str | None, option("Address of the S3 server. Default: AWS.", metavar="URL")]
StorageSecret = Annotated[
    str | None, option("Secret with the keys of the storage. Default: the pod's cloud identity.", metavar="NAME")
]
Folder = Annotated[
    str | None,
    option(
        "Where the program writes its saves, such as outputs; for a program without Run.", "--folder", metavar="DIR"
    ),
]
Progress = Annotated[
    list[str] | None,
    option(
        "A line that the program prints, such as 'step {step}/{total} loss={loss}'; may be repeated.", metavar="LINE"
    ),
]
Deps = Annotated[
    str | None,
    option(
        "File that names the Python packages of the program, or none. Default: uv.lock, pyproject.toml or "
        "requirements.txt.",
        metavar="FILE",
    ),
]
Python = Annotated[
    str | None,
    option("Version of Python in the image, for its packages. Default: of this machine.", metavar="VERSION"),
]
Platform = Annotated[
    str | None, option("Platform of the nodes, for packages. Default: x86_64-manylinux_2_28.", metavar="NAME")
]
Provided = Annotated[
    list[str] | None,
    option(
        "A package that the image has, and that is not replaced; may be repeated. Default: torch, torchvision, "
        "torchaudio, triton.",
        metavar="PACKAGE",
    ),
]
Exclude = Annotated[
    list[str] | None, option("Files that are not sent, as in .gitignore; may be repeated.", metavar="PATTERN")
]


def wanted(given: dict[str, Any]) -> Wanted:
    """What the options say. `given`: their values by the names of Wanted, None for those that were not typed.

    `storage` is three values: the address, the endpoint, the Secret. Raises CliError.
    """
    said = {name: value for name, value in given.items() if value not in (None, [])}
    address, endpoint, secret = said.pop("storage")
    if address is not None:
        said["storage"] = storage_from(address, endpoint, secret)
    elif endpoint or secret:
        raise CliError(
            "--storage-endpoint and --storage-secret need --storage", code=ExitCode.USAGE, hint="s3://BUCKET/PREFIX"
        )
    if "env" in said:
        said["env"] = dict(map(_variable, said["env"]))
    if "data" in said:
        said["data"] = dict(map(_data, said["data"]))
    found: Wanted = parsed(Wanted, said, "the command line")
    return found


def _variable(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise CliError(f"--env: {shown(text)} must be NAME=VALUE", code=ExitCode.USAGE)
    return name, value


def _data(text: str) -> tuple[str, str]:
    source, _, to = text.rpartition("=")  # an address may have a "=" in it
    if not source:
        form = "FROM=TO, such as s3://sets/faces=/data/faces"
        raise CliError(f"--data: {shown(text)} must be {form}", code=ExitCode.USAGE)
    return to, source
