"""What a person may say of a run: on the command line, in a file of the folder, in a file of their own. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from holdfast.api.every import Every
from holdfast.api.model import Model
from holdfast.api.scalars import Money, Quantity
from holdfast.api.storage import Storage
from holdfast.api.strings import (
    AnyText,
    DataAddress,
    EnvName,
    Image,
    Label,
    LongText,
    MountPath,
    ObjectName,
    PythonVersion,
)
from holdfast_protocol.report import MAX_NODES


class Wanted(Model):
    """What is said of a run. None and empty: nothing is said. The names are those of the options."""

    name: Label | None = None
    """Name of the job."""
    image: Image | None = None
    """Container image of the program."""
    profile: ObjectName | None = None
    """CapacityProfile with the tiers."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=MAX_NODES)] | None = None
    """Number of nodes that train together."""
    gpus: Annotated[int, Field(strict=True, ge=0, le=64)] | None = None
    """Accelerators of each node; 0: none is needed."""
    cpu: Quantity | None = None
    """Processor cores of each node."""
    memory: Quantity | None = None
    """Memory of each node."""
    deadline: AnyText | None = None
    """When the training must be over: a duration from now, such as 3d, or a moment."""
    budget: Money | None = None
    """The most that the training may cost."""
    every: Every | None = None
    """When a checkpoint is saved."""
    steps: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Length of the training, for percent and ETA."""
    folder: AnyText | None = None
    """Folder in which the program saves; relative: below the folder of the program."""
    storage: Storage | None = None
    """Where checkpoints and code are stored; those of a job are below {prefix}/{namespace}/{name}."""
    env: Annotated[dict[EnvName, LongText], Field(default_factory=dict)]
    """Environment variables."""
    secrets: tuple[ObjectName, ...] = ()
    """Secrets whose keys become environment variables."""
    data: Annotated[dict[MountPath, DataAddress], Field(default_factory=dict)]
    """Data that is copied into the pods: the address by the folder."""
    progress: tuple[AnyText, ...] = ()
    """Lines in which the program prints its progress."""
    deps: AnyText | None = None
    """File that names Python packages which the program needs, or none. Default: uv.lock, pyproject.toml or
    requirements.txt of the folder."""
    python: PythonVersion | None = None
    """Version of Python in the image, for which packages are chosen."""
    platform: AnyText | None = None
    """Platform of the nodes, for which packages are chosen, as uv names it."""
    provided: tuple[AnyText, ...] | None = None
    """Packages that the image has, and that are not replaced."""
    exclude: tuple[AnyText, ...] = ()
    """Patterns of files that are not sent, as in .gitignore."""


MAPS: Final = ("env", "data")  # a layer adds to those below it; all other fields replace


def layered(*layers: Wanted) -> Wanted:
    """What all layers say together, the strongest first."""
    found: dict[str, Any] = {}
    for layer in reversed(layers):
        for name in layer.model_fields_set:
            value = getattr(layer, name)
            if name in MAPS and isinstance(value, Mapping):
                found[name] = {**found.get(name, {}), **value}
            else:
                found[name] = value
    return Wanted.model_construct(**found, _fields_set=set(found))
