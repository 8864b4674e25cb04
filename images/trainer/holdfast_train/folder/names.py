"""What the names of files and folders say: which step, which files belong together, and what is only half written.

A number is a step only if a word says so. `model_3.pth` of torchvision, `checkpoint-3.pth.tar` of timm and
`checkpoint3.pt` of fairseq are of an epoch, and `checkpoint_3` of Accelerate counts checkpoints. Such a number tells
only which files belong together.
"""

import re
from typing import Final

SUFFIXES: Final = (".ckpt", ".pt", ".pth", ".pth.tar", ".pt.tar", ".keras")  # each such file is a ZIP archive

_END: Final = r"(?!\d|\.\d|-of-)"  # model-00001-of-00002 is one of two files
_STEP: Final = re.compile(rf"(?i)(?:steps?|iter(?:ation)?s?|updates?)[-_= ]?(\d{{1,15}}){_END}")
_PADDED: Final = re.compile(r"(?<![\d.])0\d{5,14}\Z")  # model_0004999 of Detectron2: nobody writes epochs so
_OTHER: Final = re.compile(
    r"(?i)(?:checkpoint|ckpt|model|optimi[sz]er|optim|opt|ema|state|epochs?|(?<![a-z])ba)"
    rf"[-_= ]?(?:\d{{1,15}}[-_])?(\d{{1,15}}){_END}"  # fairseq: checkpoint_EPOCH_UPDATES
)
_NUMBERED: Final = re.compile(
    r"(?i)(?:.*[-_=. ])?(?:steps?|iter(?:ation)?s?|updates?|epochs?|checkpoint|ckpt)[-_= ]?\d{1,15}", re.DOTALL
)
_TIME: Final = 1_000_000_000  # as seconds since 1970 and more: no step, but a time in a name
_TEMPORARY: Final = re.compile(
    r"(?i)(?:\.|_*tmp[-_.]).*|.*[-_.]tmp(?:[-_.0-9].*)?|.*\.(?:part|partial|incomplete|orbax-checkpoint-tmp.*)",
    re.DOTALL,
)
_LOGS: Final = (".log", ".out", ".err", ".wandb")


def _stem(name: str) -> str:
    suffix = max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default="")
    return name.removesuffix(suffix)


def step_of(name: str) -> int | None:
    """The step that the `name` of a file or a folder says; None if it says none."""
    stem = _stem(name)
    if stem.isdecimal() and len(stem) <= 15:
        return _unless_time(int(stem))
    if (found := _STEP.search(stem)) is not None:
        return _unless_time(int(found[1]))
    padded = None if "epoch" in stem.lower() or "-of-" in stem else _PADDED.search(stem)
    return None if padded is None else _unless_time(int(padded[0]))


def number_of(name: str) -> int | None:
    """The number in `name`. Files of one save have the same one. It counts steps or epochs; None if there is none."""
    step = step_of(name)
    found = _OTHER.search(_stem(name)) if step is None else None
    return step if found is None else _unless_time(int(found[1]))


def _unless_time(number: int) -> int | None:
    return number if number < _TIME else None


def is_numbered(folder: str) -> bool:
    """True if a folder of this name is one save: its end says which, such as `step-500`, `epoch_3`, `iter_0000100`."""
    return _NUMBERED.fullmatch(_stem(folder)) is not None


def is_temporary(name: str) -> bool:
    """True if the name says that the file or folder is still written, and gets another name then."""
    return _TEMPORARY.fullmatch(name) is not None


def is_log(name: str) -> bool:
    """True if the file belongs to no checkpoint: something is appended to it all the time."""
    return name.lower().endswith(_LOGS) or name.startswith("events.out.tfevents")
