"""Errors that come out of the user's program, in one line: where, and what."""

import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import holdfast_train
from holdfast_train.errors import HoldfastTrainError, StateError

T = TypeVar("T")
_OURS: Final = (Path(__file__).parent, Path(holdfast_train.__file__).parent)
_EXAMPLES: Final = _OURS[1] / "examples"  # a program, as those of users are
_PATHS: Final = sysconfig.get_paths()
_LIBRARIES: Final = tuple(Path(_PATHS[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_TORCH: Final = tuple(Path(_PATHS[name]) / "torch" for name in ("purelib", "platlib"))
_MOST: Final = 500  # characters of what an error says


def called(what: str, function: Callable[[], T]) -> T:
    """What a function of the user returns. `what` names it in the StateError, which has the line that failed."""
    try:
        return function()
    except HoldfastTrainError:
        raise
    except SystemExit as error:
        raise StateError(
            f"{what} ends the program (sys.exit) at {place_of(error) or 'an unknown place'}: keep what trains, and "
            f"what reads the command line, below `if __name__ == '__main__':`"
        ) from error
    except Exception as error:
        raise StateError(f"{what} raised an error: {words_of(error)}") from error


def words_of(error: BaseException) -> str:
    """`/work/train.py, line 41, in problem (open(PATH)): FileNotFoundError: ...`, in one line."""
    said = "".join(sign for sign in " ".join(str(error).split()) if sign.isprintable())[:_MOST]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    place = place_of(error)
    return what if place is None else f"{place}: {what}"


def place_of(error: BaseException) -> str | None:
    """`/work/train.py, line 41, in step (loss.item())`: the innermost line of the user, otherwise that of a library."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    own = [frame for frame in frames if not _is_in(frame.filename, _LIBRARIES)]
    if not (own or frames):
        return None
    frame = (own or frames)[-1]
    code = f" ({frame.line})" if frame.line else ""
    return f"{frame.filename}, line {frame.lineno}, in {frame.name}{code}"


def _is_ours(name: str) -> bool:
    """True for these libraries and torch, whose lines say nothing to the user."""
    return (_is_in(name, _OURS) and not _is_in(name, (_EXAMPLES,))) or _is_in(name, _TORCH)


def _is_in(name: str, folders: tuple[Path, ...]) -> bool:
    return name.startswith("<frozen") or any(Path(name).is_relative_to(folder) for folder in folders)
