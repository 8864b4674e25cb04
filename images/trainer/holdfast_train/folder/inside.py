"""What the files of libraries say inside: the step, metrics and texts of a Trainer's state and of a checkpoint.

As in `formats`: nothing is unpickled, no link is followed, at most some MiB are read, and only OSError is raised.
"""

import json
import pickletools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from holdfast_train.folder.formats import BLOCK, MOST, Content, opened

_HISTORY: Final = '"log_history"'
_ENTRY: Final = re.compile(r"\{[^{}]*\}|\]")  # of the history, or its end
_METRIC: Final = re.compile(r"[\w./-]{1,64}")
_STEP: Final = re.compile(r'"global_step"\s*:\s*(\d{1,15})\b')


def _pickled(content: Content, most: int) -> Iterator[tuple[str, object]]:
    """The first opcodes and values of what torch.save wrote into an archive."""
    name, extra = content.number(26, 2), content.number(28, 2)
    if content.at(0, 4) != b"PK\3\4" or content.number(8, 2) or not content.at(30, name).endswith(b"/data.pkl"):
        return
    try:
        for opcode, value, _ in pickletools.genops(content.at(30 + name + extra, most)):
            yield opcode.name, value
    except ValueError:  # it is longer, or not a pickle
        return


def _history(content: Content) -> tuple[str, str] | None:
    """Start and end of a `trainer_state.json`, up to a MiB each: only the history between them can be long."""
    head, tail = (part.decode(errors="replace") for part in (content.at(0, MOST), content.end(MOST)))
    return (head, tail) if head.lstrip().startswith("{") and _HISTORY in head + tail else None


def step_in(path: Path) -> int | None:
    """The step that a `trainer_state.json` or a checkpoint of Lightning says. None of other files."""
    with opened(path) as content:
        last, step, is_lightning = "", None, False
        for opcode, value in _pickled(content, BLOCK):
            if isinstance(value, str):
                last, is_lightning = value, is_lightning or value == "pytorch-lightning_version"
            elif step is None and last == "global_step" and opcode in ("BININT", "BININT1", "BININT2", "LONG1"):
                step = value
        if is_lightning:
            return step if isinstance(step, int) and 0 <= step < 10**15 else None
        ends = _history(content)
    if ends is None:
        return None
    # The Trainer sorts the names, so the step is before the history. An entry of it may have such a name, too.
    found = _STEP.search(ends[0].partition(_HISTORY)[0]) or next(iter([*_STEP.finditer(ends[1])][-1:]), None)
    return None if found is None else int(found[1])


def metrics_in(path: Path) -> Mapping[str, str]:
    """The newest value of each metric that the Trainer of Hugging Face noted in its `trainer_state.json`."""
    with opened(path) as content:
        _, tail = _history(content) or ("", "")
    found: dict[str, str] = {}
    for match in _ENTRY.finditer(tail, max(0, tail.find(_HISTORY))):
        if match[0] == "]":
            break
        try:
            entry = json.loads(match[0], parse_int=float) if '"step"' in match[0] else {}
        except (ValueError, RecursionError):
            continue
        for name, value in entry.items():
            is_number = isinstance(value, float)
            if is_number and name != "step" and _METRIC.fullmatch(name) and (len(found) < 64 or name in found):
                found[name] = f"{value:.6g}"
    return found


def text_in(path: Path) -> str | None:
    """The text of a file, of a long one its first and last MiB. Of a file of torch.save: the texts in it, a line each.

    None of other content.
    """
    with opened(path) as content:
        texts = [value for _, value in _pickled(content, MOST) if isinstance(value, str)]
        head, tail = content.at(0, MOST), content.end(min(MOST, max(0, content.size - MOST)))
    if texts:
        return "\n".join(texts)
    return None if b"\0" in head or not head else (head + tail).decode(errors="replace")
