"""The data that is copied into the pods of a job before the program starts, and the rules about where it lies."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from holdfast.api.model import Model
from holdfast.api.rules import Rule
from holdfast.api.s3 import S3Server
from holdfast.api.strings import DataAddress, MountPath

MAX_DATA: Final = 8
RESERVED: Final = "/holdfast, /dev, /proc, /sys and all paths below them"
_ROOTS: Final = ("holdfast", "dev", "proc", "sys")
RESERVED_PATTERN: Final = f"^/({'|'.join(_ROOTS)})(/.*)?$"


class Data(Model):
    """Objects that are copied into a folder of each pod, and checked, before the program starts."""

    source: Annotated[DataAddress, Field(alias="from")]
    """Address of the objects, such as s3://datasets/imagenet. All objects below this prefix are copied."""
    to: MountPath
    """Folder in the trainer, such as /data. If it is in a volume of trainer.volumes, the data stays there, and the next
    pod that uses the volume fetches only what is missing. Otherwise the folder is an emptyDir that is deleted with the
    pod."""
    s3: S3Server | None = None
    """How the objects are read, with keys that need only the rights to list and to read. Default: as
    checkpoint.storage.s3 says; if checkpoints are not in S3, from AWS with the pod's own cloud identity."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed=f"{RESERVED} cannot have data: choose another path",
            cel=f"!self.to.matches('{RESERVED_PATTERN}')",
            is_met=lambda data: not is_reserved(data.to),
            got_cel="self.to",
            got=lambda data: data.to,
            field=".to",
        ),
    )


def is_reserved(path: str) -> bool:
    """True if the container runtime or Holdfast needs the path."""
    return path.split("/")[1] in _ROOTS


def is_in(path: str, folder: str) -> bool:
    """True if `path` is `folder` or below it."""
    return path == folder or path.startswith(f"{folder}/")


# The rules are those of a Trainer, whose module imports this one.


def _nested(trainer: Any) -> Iterator[str]:
    """Folders of data inside other ones."""
    paths = [data.to for data in trainer.data]
    return (path for path in paths if any(path != other and is_in(path, other) for other in paths))


def _covered(trainer: Any) -> Iterator[str]:
    """Volumes that are mounted below a folder of data."""
    for volume in trainer.volumes:
        if any(volume.mount_path != data.to and is_in(volume.mount_path, data.to) for data in trainer.data):
            yield volume.mount_path


def _not_writable(trainer: Any) -> Iterator[str]:
    """Folders of data in volumes that cannot be written."""
    for volume in trainer.volumes:
        claim = volume.persistent_volume_claim
        if volume.read_only or (volume.empty_dir is None and (claim is None or claim.read_only)):
            yield from (data.to for data in trainer.data if is_in(data.to, volume.mount_path))


_BELOW: Final = "self.data.exists(e, d.to.startsWith(e.to + '/'))"
_COVERS: Final = "self.data.exists(d, v.mountPath.startsWith(d.to + '/'))"
_WRITES: Final = "self.data.exists(d, d.to == v.mountPath || d.to.startsWith(v.mountPath + '/'))"
_CLAIMED: Final = "(has(v.persistentVolumeClaim) && !v.persistentVolumeClaim.readOnly)"
_SEALED: Final = f"(v.readOnly || !(has(v.emptyDir) || {_CLAIMED}))"

DATA_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        allowed="a folder of data must not be inside another one: choose folders beside each other",
        cel=f"!has(self.data) || !self.data.exists(d, {_BELOW})",
        is_met=lambda trainer: not any(_nested(trainer)),
        got=lambda trainer: next(_nested(trainer)),
        field=".data",
    ),
    Rule(
        allowed="no volume may be mounted below a folder of data: choose another mountPath",
        cel=f"!has(self.data) || !has(self.volumes) || !self.volumes.exists(v, {_COVERS})",
        is_met=lambda trainer: not any(_covered(trainer)),
        got=lambda trainer: next(_covered(trainer)),
        field=".volumes",
    ),
    Rule(
        allowed="data needs a volume that can be written: an emptyDir or a persistentVolumeClaim without readOnly",
        cel=f"!has(self.data) || !has(self.volumes) || !self.volumes.exists(v, {_SEALED} && {_WRITES})",
        is_met=lambda trainer: not any(_not_writable(trainer)),
        got=lambda trainer: next(_not_writable(trainer)),
        field=".data",
    ),
)
