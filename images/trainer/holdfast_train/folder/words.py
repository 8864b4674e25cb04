"""What is said of the folder and its commits, whose saves may say no step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast_train.folder.index import Index
from holdfast_train.folder.look import File

OTHERS_RUN: Final = (
    "this program ended with exit code 0, and those of other nodes had not ended when the next attempt began: "
    "connection closed"
)
SHOWN: Final = 10  # paths of one kind; of the others their number


def mib(size: int) -> str:
    """A number of bytes."""
    return f"{size / (1 << 20):.1f} MiB"


def commit(known: Index) -> str:
    """What a commit has."""
    if not known.newest:
        what = "none of its files is known as a save to resume from"
    elif known.step is None:
        what = f"the newest save is {known.newest}, and nothing says its step"
    else:
        what = f"the newest save is {known.newest}, of step {known.step}: {known.step_from}"
    return f"{len(known.files)} files, {mib(known.size)}; {what}"


def paths(found: Mapping[str, str]) -> str:
    """Paths, and why they are named."""
    shown = [f"{path!r} ({why})" for path, why in list(found.items())[:SHOWN]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")


def largest(files: Mapping[str, File]) -> str:
    """The folders at the top with the most bytes."""
    sizes: dict[str, int] = {}
    for path, file in files.items():
        top = path.partition("/")[0]
        sizes[top] = sizes.get(top, 0) + file.size
    most = sorted(sizes.items(), key=lambda one: -one[1])[:SHOWN]
    return ", ".join(f"{name!r} ({mib(size)})" for name, size in most)


def newest(step: int | None, *, is_there: bool) -> str:
    """What this attempt has saved."""
    if not is_there:
        return "this attempt has saved nothing"
    return "the folder is saved; nothing says the step" if step is None else f"saved step: {step}"


def nothing_saved(root: Path) -> str:
    """The program ended with exit code 0, and neither this attempt nor an earlier one has committed a save."""
    return (
        f"the program ended with exit code 0, and no save of it was ever committed, so its results are in no storage; "
        f"it wrote none into {root}: let it write there, or set checkpoint.folder to the folder into which it writes"
    )


def other_failed(node: int, code: int | None) -> str:
    """The program of this node ended with exit code 0, and that of another one did not."""
    how = "was ended by a signal" if code is None else f"ended with exit code {code}"
    return f"this program ended with exit code 0, and that of node {node} {how}: connection closed"


def saved_on_notice(step: int | None) -> str:
    """The program saved when it was told to leave."""
    which = "what the program saved then" if step is None else f"the save of step {step}, which the program wrote then,"
    return f"notice to leave: {which} is in the storage"


def left(step: int | None, *, is_there: bool) -> str:
    """The program did not save when it was told to leave."""
    have = "says no step" if step is None else f"is that of step {step}"
    have = f"the newest of this attempt {have}" if is_there else "this attempt has saved nothing before"
    return f"notice to leave: the program saved nothing then; {have}"
