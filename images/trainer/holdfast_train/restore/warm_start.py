"""A warm start: training begins at step 0, with some objects of another job's checkpoint."""

from collections.abc import Collection, Mapping

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import EnvironmentVariableError
from holdfast_train.format.stateful import Counts, Stateful


def named(found: Found, saved: Collection[str], objects: Mapping[str, Stateful]) -> dict[str, Stateful]:
    """The `objects` that `found.only` names. `saved`: the names of the objects in the checkpoint.

    EnvironmentVariableError if the program or the checkpoint lacks one, or if one counts steps.
    """
    field = f"checkpoint.resume.only is {', '.join(found.only)}"
    for name in found.only:
        if name not in objects:
            raise EnvironmentVariableError(
                f"{field}, but the objects of the Run are {_listed(objects)}; name only these"
            )
        if name not in saved:
            raise EnvironmentVariableError(f"{field}, but {found.uri} has {_listed(saved)}; name only these")
        if isinstance(objects[name], Counts):
            raise EnvironmentVariableError(
                f"{field}, but {name!r} counts steps, and a warm start begins at step 0; leave {name!r} out"
            )
    return {name: objects[name] for name in found.only}


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
