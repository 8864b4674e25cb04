"""The text of `wrapper`, with that of `save_watch` before it, as arguments of python3 in a pod."""

import inspect
import json
from collections.abc import Mapping
from typing import Any, Final

from holdfast_cli.rehearse import save_watch
from holdfast_cli.rehearse.cluster import wrapper

LONGEST: Final = 4000  # characters of an argument; the API takes 4096
_FUTURE: Final = "from __future__ import annotations\n"
_OWN: Final = "from holdfast_cli.rehearse.save_watch import SaveWatch\n"
_START: Final = "import sys; n = 2 + int(sys.argv[1]); text = ''.join(sys.argv[2:n]); del sys.argv[1:n]; exec(text)"


def _text() -> str:
    parts = (inspect.getsource(module).replace(_FUTURE, "").replace(_OWN, "") for module in (save_watch, wrapper))
    return _FUTURE + "".join(parts)


TEXT: Final = _text()
_PARTS: Final = [TEXT[start : start + LONGEST] for start in range(0, len(TEXT), LONGEST)]


def wrapping(folder: str, attempts: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """The command whose arguments are the command and the arguments of a program: it kills it in these attempts.

    Each attempt has `seconds` of this start, which must have passed, and `saves` of it or one of a `step`, which must
    be committed; then `pause` seconds, and if it is `inSave` at most `patience` seconds until a save begins in `folder`
    (empty: there is none).
    """
    plan = json.dumps({"folder": folder, "attempts": {str(number): dict(one) for number, one in attempts.items()}})
    return ["python3", "-I", "-c", _START, str(len(_PARTS)), *_PARTS, plan]
