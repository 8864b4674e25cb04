"""The version of what is stored. Manifests and log records carry the same number.

So the newest record of a log says whether a program knows all manifests that the log names, and a program that does not
know them stops before it has written anything. Raise VERSION with every change of the form or the meaning of either.

In every version an object is sealed JSON with the key `v`: `sealed_json` must stay as it is.
"""

from typing import Any, Final

from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError

VERSION: Final = 1


def take_version(body: dict[str, Any]) -> None:
    """Remove the version from the unsealed `body`.

    CheckpointVersionError if it is not VERSION, CheckpointCorruptError if it is not a version.
    """
    version = body.pop("v", None)
    if type(version) is not int:
        raise CheckpointCorruptError("it states no version")
    if version == VERSION:
        return
    which = "a newer" if version > VERSION else "an older"
    raise CheckpointVersionError(
        f"{which} holdfast-train wrote it, in version {version} of the format; this one reads version {VERSION}. "
        f"Nothing was changed: use an image with {which} holdfast-train"
    )
