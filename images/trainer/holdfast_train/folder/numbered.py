"""What the numbers in names of files and folders say: which step, which files belong together, what counts saves.

A number is a step only if a word says so. `model_3.pth` of torchvision, `checkpoint-3.pth.tar` of timm and
`checkpoint3.pt` of fairseq are of an epoch, and `checkpoint_3` of Accelerate counts checkpoints. Such a number tells
only which files belong together.
"""

import re
from typing import Final

_SUFFIX: Final = re.compile(r"(?:\.[A-Za-z]\w*)+\Z")
_END: Final = r"(?!\d|\.\d|-of-)"  # model-00001-of-00002 is one of two files
_WORD: Final = r"(?:steps?|iter(?:ation)?s?|updates?)"
_STEP: Final = re.compile(rf"(?i){_WORD}[-_= ]?(\d{{1,15}}){_END}|(?<!\d)(\d{{1,15}})[-_ ]?{_WORD}(?!\w|[-= ]\d)")
_PADDED: Final = re.compile(r"(?<![\d.])0\d{5,14}\Z")  # model_0004999 of Detectron2: nobody writes epochs so
_SAVE: Final = re.compile(
    rf"(?i)(?:checkpoint|ckpt|epochs?|(?<![a-z])(?:(?:ep\d+-)?ba|ep|it|save))[-_= ]?(\d{{1,15}}){_END}"
)
_OTHER: Final = re.compile(
    r"(?i)(?:checkpoint|ckpt|model|weights|optimi[sz]er|optim|opt|ema|state|epochs?|(?<![a-z])(?:(?:ep\d+-)?ba|ep|it))"
    rf"[-_=. ]?(?:\d{{1,15}}[-_])?(\d{{1,15}}){_END}"  # fairseq: checkpoint_EPOCH_UPDATES
)
_FOLDER: Final = re.compile(
    rf"(?i)(?:global[-_])?(?:{_WORD}|epochs?|checkpoint|ckpt|save|it|ep|ba)[-_= ]?\d{{1,15}}|epoch=\d+[-_]step=\d+"
)
_RUN: Final = re.compile(
    r"(?i)(?:folds?|seed|runs?|version|v|exp\w*?|trial|rank|stage|phase|task|split|part|shard|worker|node|gpu)"
    r"[-_= ]?\d+"
)
_TIME: Final = 1_000_000_000  # as seconds since 1970 and more: no step, but a time in a name


def step_of(name: str) -> int | None:
    """The step that the `name` of a file or a folder says; None if it says none."""
    stem = _SUFFIX.sub("", name)
    if stem.isdecimal() and len(stem) <= 15:
        return _unless_time(stem)
    if (found := _STEP.search(stem)) is not None:
        return _unless_time(found[1] or found[2])
    padded = None if "epoch" in stem.lower() or "-of-" in stem else _PADDED.search(stem)
    return None if padded is None else _unless_time(padded[0])


def number_of(name: str) -> int | None:
    """The number in `name`. Files of one save have the same one. It counts steps or epochs; None if there is none."""
    step = step_of(name)
    found = _OTHER.search(_SUFFIX.sub("", name)) if step is None else None
    return step if found is None else _unless_time(found[1])


def save_of(name: str) -> int | None:
    """The number in `name` if a word says that it counts saves, steps or epochs: not `model_1`, which may be a part.

    Three digits count without such a word.
    """
    found = _SAVE.search(_SUFFIX.sub("", name))
    number = number_of(name)
    is_sure = step_of(name) is not None and (number is None or number > 99 or not _SUFFIX.sub("", name).isdecimal())
    return number if is_sure or found is not None or (number is not None and number > 99) else None


def is_of_saves(folder: str) -> bool:
    """True if the name says no more than which save the folder is, such as `step-500`, `epoch_3`, `iter_0000100`."""
    return _FOLDER.fullmatch(folder) is not None


def series_of(folder: str) -> str | None:
    """`folder` without the number at its end, if that may count saves: it does not say that it counts runs or parts."""
    head = folder.rstrip("0123456789")
    is_date = head != "" and re.search("[A-Za-z]", head) is None
    return None if head == folder or is_date or _RUN.fullmatch(folder) else head


def _unless_time(number: str) -> int | None:
    return int(number) if int(number) < _TIME else None
