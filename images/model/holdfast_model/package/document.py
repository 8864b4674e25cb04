"""What package.json has to say, field by field. A package may come from a stranger: nothing in it is trusted.

Every function raises ValueError, which names the field, or ProblemError for names, types and sizes.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from holdfast_model.package.convert import COMMAND
from holdfast_model.package.problem import Tensor, check_tensors

CODE: Final = ("pt2", "torch")
"""The one variant, and its runtime, whose file may contain code that runs when it is opened."""
RUNTIMES: Final = ("files", "torch", "onnxruntime", COMMAND)
SHA256: Final = re.compile(r"[0-9a-f]{64}")
VARIANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_AXES: Final = 32
MOST_TESTS: Final = 10_000
MOST_NAME: Final = 1024
MOST_BYTES: Final = 1 << 50
"""The largest size of a file."""

Parsed = tuple[dict[str, Tensor], dict[str, Tensor], dict[str, tuple[int, int]]]
"""Inputs, outputs and dims of a package."""


def read_json(text: bytes) -> Any:
    """`text` as JSON. ValueError if it is not JSON, or nested too deeply."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse(document: Mapping[str, Any]) -> Parsed:
    """Check all fields that this program reads."""
    problem = _object("problem", _field("package.json", document, "problem"))
    inputs, outputs = (_tensors(f"problem.{side}", _field("problem", problem, side)) for side in ("inputs", "outputs"))
    dims = {}
    for symbol, limits in _object("problem.dims", _field("problem", problem, "dims")).items():
        if not isinstance(limits, list) or len(limits) != 2:
            raise ValueError(f"problem.dims.{_short(symbol)} is {_short(limits)}; allowed: [least, largest]")
        least, most = (_whole(f"problem.dims.{_short(symbol)}", limit) for limit in limits)
        dims[symbol] = (least, most)
    check_tensors(inputs, outputs, dims)
    _tests(_field("package.json", document, "tests"))
    for name, entry in _object("pages", document.get("pages", {})).items():
        _entry(f"pages[{_path('pages', name)!r}]", _object("pages", entry))
    for name, why in _object("failed", document.get("failed", {})).items():
        _text(f"failed.{_short(name)}", why)
    for name, entry in _object("variants", _field("package.json", document, "variants")).items():
        if not VARIANT.fullmatch(name):
            raise ValueError(f"variants has the name {_short(name)}; allowed: letters, digits and ._-, at most 64")
        _variant(f"variants.{name}", name, entry, dims)
    return inputs, outputs, dims


def check_origin(document: Any) -> None:
    """Where the package is from."""
    origin = _object("from", _field("package.json", document, "from"))
    _whole("from.step", _field("from", origin, "step"))
    for key in ("manifest", "sha256"):
        _text(f"from.{key}", _field("from", origin, key))


def _tensors(place: str, found: Any) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for number, entry in enumerate(_list(place, found)):
        at = f"{place}[{number}]"
        one = _object(at, entry)
        name, dtype = (_text(f"{at}.{key}", _field(at, one, key)) for key in ("name", "dtype"))
        shape = _list(f"{at}.shape", _field(at, one, "shape"))
        if len(shape) > MOST_AXES or not all(type(part) in (int, str) for part in shape):
            raise ValueError(f"{at}.shape is {_short(shape)}; allowed: at most {MOST_AXES} numbers and symbols")
        if name in tensors:
            raise ValueError(f"{place} has {_short(name)} twice; allowed: each name once")
        tensors[name] = Tensor(dtype, tuple(shape))
    return tensors


def _tests(found: Any) -> None:
    tests = _object("tests", found)
    _entry("tests", tests)
    if len(_list("tests.cases", _field("tests", tests, "cases"))) > MOST_TESTS:
        raise ValueError(f"tests.cases has over {MOST_TESTS} entries; it is not of this program")


def _variant(place: str, name: str, found: Any, dims: Mapping[str, tuple[int, int]]) -> None:
    entry = _object(place, found)
    runtime = _text(f"{place}.runtime", _field(place, entry, "runtime"))
    if runtime not in RUNTIMES:
        raise ValueError(f"{place}.runtime is {_short(runtime)}; allowed: {', '.join(RUNTIMES)}")
    if (name == CODE[0]) != (runtime == CODE[1]):
        raise ValueError(f"{place}.runtime is {runtime}; only the variant {CODE[0]} has the runtime {CODE[1]}")
    model = _path(f"{place}.model", _field(place, entry, "model"))
    files = _object(f"{place}.files", _field(place, entry, "files"))
    for path, one in files.items():
        _entry(f"{place}.files[{_path(f'{place}.files', path)!r}]", _object(f"{place}.files", one))
    said = _field(place, entry, "tested")
    if said is None and runtime == COMMAND:  # nothing that can run it was given: it did not pass, and did not fail
        said = {"passed": False}
    tested = _object(f"{place}.tested", said)
    if type(tested.get("passed")) is not bool:
        raise ValueError(f"{place}.tested.passed is {_short(tested.get('passed'))}; allowed: true or false")
    if model not in files and (files or tested["passed"]):  # a variant that could not be made has no file
        raise ValueError(f"{place}.files lacks the model {model!r}, so nothing says what it has to be")
    for at, numbers, key in ((place, entry, "tolerance"), (f"{place}.tested", tested, "agreement")):
        if key in numbers:
            _decimal(f"{at}.{key}", numbers[key])
    for symbol, size in _object(f"{place}.fixed", entry.get("fixed", {})).items():
        if symbol not in dims:
            raise ValueError(f"{place}.fixed has {_short(symbol)}, which problem.dims lacks")
        least, most = dims[symbol]
        if not least <= _whole(f"{place}.fixed.{symbol}", size) <= most:
            raise ValueError(f"{place}.fixed.{symbol} is {size}; allowed: {least} to {most}")


def _entry(place: str, entry: Mapping[str, Any]) -> None:
    """Size and hash of a file."""
    if not 0 <= _whole(f"{place}.bytes", _field(place, entry, "bytes")) <= MOST_BYTES:
        raise ValueError(f"{place}.bytes is {_short(entry['bytes'])}; allowed: 0 to {MOST_BYTES}")
    sha256 = _text(f"{place}.sha256", _field(place, entry, "sha256"))
    if not SHA256.fullmatch(sha256):
        raise ValueError(f"{place}.sha256 is {_short(sha256)}; allowed: 64 digits of base 16")


def _path(place: str, found: Any) -> str:
    """A path below the folder of the package."""
    path = _text(place, found)
    if not path or len(path) > MOST_NAME or not path.isprintable():
        raise ValueError(f"{place} is {_short(path)}; allowed: a path of at most {MOST_NAME} printable characters")
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{place} names the file {_short(path)}, which is outside of the package")
    return path


def _decimal(place: str, found: Any) -> None:
    try:
        number = float(_text(place, found))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{place} is {_short(found)}; allowed: a finite number, as text")


def _field(place: str, found: Any, key: str) -> Any:
    if key not in _object(place, found):
        raise ValueError(f"{place} lacks {key}")
    return found[key]


def _object(place: str, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise _refused(place, found, "an object")
    return found


def _list(place: str, found: Any) -> Sequence[Any]:
    if not isinstance(found, list):
        raise _refused(place, found, "a list")
    return found


def _text(place: str, found: Any) -> str:
    if not isinstance(found, str):
        raise _refused(place, found, "a text")
    return found


def _whole(place: str, found: Any) -> int:
    if type(found) is not int:
        raise _refused(place, found, "a whole number")
    return found


def _refused(place: str, found: Any, allowed: str) -> ValueError:
    return ValueError(f"{place} is {_short(found)}; allowed: {allowed}")


def _short(found: Any) -> str:
    """As it may be shown in a message."""
    said = repr(found)
    return said if len(said) <= 80 else said[:77] + "..."
