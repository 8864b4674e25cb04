"""What the inert nodes of a pickle mean: tensors of torch, arrays of NumPy, mappings, and objects of any other class.

Each call looks at one node, not below it. Nothing is imported: names are compared as texts.
"""

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.pickle_machine import Call, Global, Items, Mapping, Persistent
from holdfast_cli.rehearse.compare.reading.source import Memory, Source, part_of
from holdfast_cli.rehearse.compare.reading.values import LONG_LIST, Named, Pairs, Raw, Tensor, key_name

_STEPS: Final = 16  # nodes that only contain another one, inside each other
_MAPPINGS: Final = ("collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict")
_CONTAINERS: Final = frozenset(
    ("torch.Size", "torch.device", *(f"{module}.{kind}" for module in ("builtins", "__builtin__") for kind in (
        "list", "tuple", "set", "frozenset", "bytes", "bytearray")))
)  # fmt: skip
_TENSORS: Final = tuple(f"torch._utils._rebuild_tensor{version}" for version in ("", "_v2", "_v3"))
_PARAMETERS: Final = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
_NUMPY: Final = ("numpy.core.multiarray.", "numpy._core.multiarray.", "numpy.core.numeric.", "numpy._core.numeric.")


@dataclass(frozen=True, slots=True)
class Storage:
    """Numbers that tensors are views of."""

    dtype: str
    source: Source
    is_swapped: bool = False


StorageOf = Callable[[object], Storage | None]
"""The storage that a `Persistent`, or a call that loads one, refers to; None if it does not."""


def understand(storage_of: StorageOf) -> Callable[[object], object]:
    """A function from one node to a value, or to a container of nodes. Values that are not inert nodes stay."""
    known: dict[int, tuple[object, Storage | None]] = {}  # a storage is loaded once, though many tensors name it

    def storage_once(node: object) -> Storage | None:
        if id(node) not in known:
            known[id(node)] = node, storage_of(node)
        return known[id(node)][1]

    def act(node: object) -> object:
        for _ in range(_STEPS):
            found = _once(node, storage_once)
            if found is node:
                break
            node = found
        return node

    return act


def _once(node: object, storage_of: StorageOf) -> object:
    match node:
        case Mapping():
            return Pairs(node.pairs)
        case Items():
            return sorted(node.items, key=_sort_key)
        case bytes() | bytearray():
            return Raw(Memory(bytes(node)))
        case Global():
            return node.name
        case Persistent():
            storage = storage_of(node)
            return f"a reference to {key_name(node.about)}" if storage is None else _all_of(storage)
        case list() if len(node) >= LONG_LIST:
            return numbers_in(node) or node
        case tuple() if len(node) >= LONG_LIST:
            return numbers_in(list(node)) or node
        case Call():
            return _call(node, storage_of)
    return node


def _sort_key(node: object) -> tuple[str, str]:
    return type(node).__name__, key_name(node)


def numbers_in(items: list[object]) -> Tensor | None:
    """A long list of numbers as one value; None if it has other items, or numbers of more than 64 bits."""
    first = type(items[0]) if items else None
    if first not in (int, float) or any(type(item) is not first for item in items):
        return None
    dtype = "int64" if first is int else "float64"
    try:
        data = (array("q", cast(list[int], items)) if first is int else array("d", cast(list[float], items))).tobytes()
    except OverflowError:
        return None
    return Tensor(dtype, (len(items),), Memory(data), is_list=True)


def _call(node: Call, storage_of: StorageOf) -> object:
    name, arguments = node.name, node.arguments
    if not isinstance(arguments, tuple):
        return _named(node)
    try:
        if name in _TENSORS:
            return _tensor(arguments, storage_of)
        if name in _PARAMETERS:
            return arguments[0]
        if name == "torch._tensor._rebuild_from_type_v2":
            return Call(arguments[0], arguments[2])
        if name == "torch.storage._load_from_bytes":
            storage = storage_of(node)
            return _named(node) if storage is None else _all_of(storage)
        if name == "_codecs.encode":
            return encoded(node) or _named(node)
        if name in _CONTAINERS and len(arguments) == 1 and not node.state:
            return _contained(arguments[0])
        if name.startswith(_NUMPY) or name in ("numpy.dtype", "numpy.ndarray"):
            return _array(node, arguments) or _named(node)
    except (LookupError, TypeError, ValueError, OverflowError):
        return _named(node)
    if name in _MAPPINGS and not node.items:
        own = [pair for argument in arguments for pair in _pairs_in(argument)]
        return Pairs([*own, *node.pairs, *(("(attributes)", state) for state in node.state)])
    return _named(node)


def encoded(node: Call) -> bytes | None:
    """The bytes of `_codecs.encode(text, "latin1")`; None if it is another call."""
    text = node.arguments[0] if isinstance(node.arguments, tuple) and node.arguments else None
    is_text = node.name == "_codecs.encode" and isinstance(text, str)
    return text.encode("latin-1") if is_text and isinstance(text, str) else None


def _contained(value: object) -> object:
    return Items(value) if isinstance(value, list) else value


def _pairs_in(argument: object) -> list[tuple[object, object]]:
    if isinstance(argument, Mapping):
        return argument.pairs
    if isinstance(argument, list):
        return [(pair[0], pair[1]) for pair in argument if isinstance(pair, list | tuple) and len(pair) == 2]
    return []


def _named(node: Call) -> Named:
    """An object of which only the parts are known: its arguments and its attributes."""
    name = node.name if node.name else "an object"
    parts: list[tuple[str, object]] = []
    if name.endswith("_reconstructor") and isinstance(node.arguments, tuple) and node.arguments:
        name, rest = key_name(_name_of(node.arguments[0])), node.arguments[2:]
    else:
        rest = node.arguments if isinstance(node.arguments, tuple) else (node.arguments,)
    parts += [(f"({number})", one) for number, one in enumerate(rest)]
    if isinstance(node.keywords, Mapping):
        parts += [(key_name(key), value) for key, value in node.keywords.pairs]
    for state in node.state:
        for piece in state if isinstance(state, tuple) and len(state) == 2 else (state,):
            if isinstance(piece, Mapping):
                parts += [(key_name(key), value) for key, value in piece.pairs]
            elif piece is not None:
                parts.append(("(state)", piece))
    parts += [(key_name(key), value) for key, value in node.pairs]
    parts += [("(items)", node.items)] if node.items else []
    return Named(name, parts)


def _name_of(node: object) -> str:
    return node.name if isinstance(node, Global) else "an object"


def _all_of(storage: Storage) -> Tensor:
    size = elements.width(storage.dtype) or 1
    return Tensor(storage.dtype, (storage.source.size // size,), storage.source, storage.is_swapped)


def _tensor(arguments: tuple[object, ...], storage_of: StorageOf) -> Tensor:
    storage = storage_of(arguments[0])
    if storage is None:
        raise ValueError("a tensor without a storage")
    dtype = elements.of_torch(_name_of(arguments[6]).strip()) if len(arguments) > 6 else None
    return view(storage, dtype or storage.dtype, _whole(arguments[1]), _shape(arguments[2]), _shape(arguments[3]))


def view(storage: Storage, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """A tensor that begins at element `offset` of a storage. ValueError if the storage does not have it."""
    size = elements.width(dtype)
    if size is None or len(shape) != len(strides):
        raise ValueError("a tensor of an unknown form")
    numel, extent = math.prod(shape), 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if not numel:
        return Tensor(dtype, shape, Memory(b""))
    source = part_of(storage.source, offset * size, extent * size)
    is_usual = all(n == 1 or s == usual for n, s, usual in zip(shape, strides, rows(shape), strict=True))
    return Tensor(dtype, shape, source, storage.is_swapped, None if is_usual else strides)


def rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor whose elements lie row by row."""
    found, step = list[int](), 1
    for length in reversed(shape):
        found.append(step)
        step *= length
    return tuple(reversed(found))


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError("not a size")
    return value


def _shape(value: object) -> tuple[int, ...]:
    value = value.arguments if isinstance(value, Call) else value
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], tuple | list):
        value = value[0]
    if not isinstance(value, tuple | list) or len(value) > 64:
        raise ValueError("not a shape")
    return tuple(map(_whole, value))


def _array(node: Call, arguments: tuple[object, ...]) -> object:
    function = node.name.rpartition(".")[2]
    if function == "dtype":
        code, order = numpy_type(node)
        return f"numpy.dtype {order}{code}"
    if function == "scalar":
        found = _of_numpy(arguments[0], (), arguments[1])
        values = elements.numbers(found.dtype, found.source.read(0, 16), is_swapped=found.is_swapped)
        return found if values is None or len(values) != 1 else values[0]
    if function == "_frombuffer":
        return _of_numpy(arguments[1], _shape(arguments[2]), arguments[0], is_fortran=arguments[3] == "F")
    if function == "_reconstruct" and node.state and isinstance(state := node.state[0], tuple) and len(state) == 5:
        if isinstance(state[4], list):  # an array of objects
            return Named("numpy.ndarray", [("shape", state[1]), ("", state[4])])
        return _of_numpy(state[2], _shape(state[1]), state[4], is_fortran=bool(state[3]))
    return None


def _of_numpy(dtype: object, shape: tuple[int, ...], data: object, *, is_fortran: bool = False) -> Tensor:
    if isinstance(data, Call) and data.name == "_codecs.encode":
        data = encoded(data)
    elif isinstance(data, Call) and isinstance(data.arguments, tuple) and len(data.arguments) == 1:
        data = data.arguments[0]  # bytearray(...)
    elif isinstance(data, str):
        data = data.encode("latin-1")
    if not isinstance(data, bytes | bytearray):
        raise TypeError("an array without bytes")
    code, order = numpy_type(dtype)
    name = elements.of_numpy(code)
    size = elements.width(name)
    if size is not None and len(data) != size * math.prod(shape):
        raise ValueError("an array with other bytes than its shape has")
    strides = tuple(reversed(rows(tuple(reversed(shape))))) if is_fortran and len(shape) > 1 else None
    return Tensor(name, shape, Memory(bytes(data)), order == ">", strides)


def numpy_type(node: object) -> tuple[str, str]:
    """Code and byte order of a `numpy.dtype`."""
    if not isinstance(node, Call) or node.name != "numpy.dtype" or not isinstance(node.arguments, tuple):
        raise TypeError("not a type of NumPy")
    code, state = node.arguments[0], node.state[0] if node.state else ()
    if not isinstance(code, str):
        raise TypeError("not a type of NumPy")
    order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
    is_record = isinstance(state, tuple) and len(state) > 4 and state[4] is not None
    if is_of_objects(node) or is_record:
        raise TypeError("an array of objects or of records")
    return code.lstrip("<>|="), order if isinstance(order, str) else "|"


def is_of_objects(node: object) -> bool:
    """True of the `numpy.dtype` of an array of objects."""
    code = node.arguments[0] if isinstance(node, Call) and isinstance(node.arguments, tuple) and node.arguments else ""
    return isinstance(code, str) and code.lstrip("<>|=").startswith("O")
