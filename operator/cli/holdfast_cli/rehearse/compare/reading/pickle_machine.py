"""Pickles are read by a machine of our own that runs nothing.

Python's own reader calls what a pickle names. This one takes the operations of `pickletools` and builds inert nodes: a
`Global` is a name, a `Call` is a function with its arguments, and nobody ever imports or calls them. Mappings are lists
of pairs, so that no key needs a hash.
"""

import pickletools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, BinaryIO, Final

from holdfast_cli.rehearse.compare.reading.values import UnreadableError

MOST_OPERATIONS: Final = 2_000_000
MOST_MEMO: Final = 1_000_000

_MARK: Final = object()
# What the operations of a damaged or hostile pickle raise here and in pickletools.
BROKEN: Final = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError, struct.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or a function. It is not imported."""

    name: str


@dataclass(slots=True)
class Call:
    """A call that is not made: of a function, or of a class for a new object. `state`: what is set on the object."""

    what: object
    arguments: object
    keywords: object = None
    state: list[object] = field(default_factory=list)
    pairs: list[tuple[object, object]] = field(default_factory=list)
    items: list[object] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the function or the class; empty if it is not a plain name."""
        return self.what.name if isinstance(self.what, Global) else ""


@dataclass(slots=True)
class Mapping:
    """A dict."""

    pairs: list[tuple[object, object]] = field(default_factory=list)


@dataclass(slots=True)
class Items:
    """A set."""

    items: list[object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Persistent:
    """A reference to something beside the pickle, such as a storage of torch."""

    about: object


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, object] = {}

    def to_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                found = self.stack[at + 1 :]
                del self.stack[at:]
                return found
        raise ValueError("no mark")

    def pop(self) -> Any:
        found = self.stack.pop()
        if found is _MARK:
            raise ValueError("a mark instead of a value")
        return found

    def run(self, name: str, argument: Any) -> None:
        if name in _PUSHED:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif (act := _ACTIONS.get(name)) is not None:
            act(self, argument)
        elif name not in ("PROTO", "FRAME", "READONLY_BUFFER"):
            raise ValueError(f"the operation {name}")


def _put(machine: _Machine, argument: Any) -> None:
    if len(machine.memo) >= MOST_MEMO:
        raise ValueError("too many shared values")
    machine.memo[len(machine.memo) if argument is None else argument] = machine.stack[-1]


def _tuple(size: int) -> Callable[[_Machine, Any], None]:
    def act(machine: _Machine, _: Any) -> None:
        found = [machine.pop() for _ in range(size)]
        machine.stack.append(tuple(reversed(found)))

    return act


def _append(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Call | Items):
        target.items.extend(values)
    elif isinstance(target, list):
        target.extend(values)
    else:
        raise TypeError("no list")


def _set(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, Call | Mapping) or len(values) % 2:
        raise TypeError("no mapping")
    target.pairs.extend(zip(values[::2], values[1::2], strict=True))


def _one(machine: _Machine, _: Any) -> None:
    value = machine.pop()
    _append(machine, [value])


def _pair(machine: _Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    _set(machine, [key, value])


def _dict(machine: _Machine, _: Any) -> None:
    values = machine.to_mark()
    machine.stack.append(Mapping())
    _set(machine, values)


def _build(machine: _Machine, _: Any) -> None:
    state = machine.pop()
    if isinstance(target := machine.stack[-1], Call):
        target.state.append(state)


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, what = machine.pop(), machine.pop()
    machine.stack.append(Call(what, arguments))


def _new_with_keywords(machine: _Machine, _: Any) -> None:
    keywords, arguments, what = machine.pop(), machine.pop(), machine.pop()
    machine.stack.append(Call(what, arguments, keywords))


def _global(machine: _Machine, argument: Any) -> None:
    machine.stack.append(Global(".".join(str(argument).split(" ", 1))))


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise TypeError("the name of a global is not a text")
    machine.stack.append(Global(f"{module}.{name}"))


def _instance(machine: _Machine, argument: Any) -> None:
    arguments = machine.to_mark()
    machine.stack.append(Call(Global(".".join(str(argument).split(" ", 1))), tuple(arguments)))


def _object(machine: _Machine, _: Any) -> None:
    what, *arguments = machine.to_mark()
    machine.stack.append(Call(what, tuple(arguments)))


_PUSHED: Final = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "FLOAT", "BINFLOAT",
))  # fmt: skip
_CONSTANTS: Final[dict[str, Callable[[], object]]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": Mapping, "EMPTY_SET": Items, "MARK": lambda: _MARK,
    "NEXT_BUFFER": lambda: Persistent("a buffer beside the pickle"),
}  # fmt: skip
_ACTIONS: Final[dict[str, Callable[[_Machine, Any], Any]]] = {
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.to_mark(),
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "PUT": _put, "BINPUT": _put, "LONG_BINPUT": _put, "MEMOIZE": _put,
    "GET": lambda machine, number: machine.stack.append(machine.memo[number]),
    "BINGET": lambda machine, number: machine.stack.append(machine.memo[number]),
    "LONG_BINGET": lambda machine, number: machine.stack.append(machine.memo[number]),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.to_mark())),
    "LIST": lambda machine, _: machine.stack.append(list(machine.to_mark())),
    "FROZENSET": lambda machine, _: machine.stack.append(Items(machine.to_mark())),
    "DICT": _dict, "TUPLE1": _tuple(1), "TUPLE2": _tuple(2), "TUPLE3": _tuple(3),
    "APPEND": _one, "APPENDS": lambda machine, _: _append(machine, machine.to_mark()),
    "ADDITEMS": lambda machine, _: _append(machine, machine.to_mark()),
    "SETITEM": _pair, "SETITEMS": lambda machine, _: _set(machine, machine.to_mark()),
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global, "INST": _instance, "OBJ": _object,
    "REDUCE": _reduce, "NEWOBJ": _reduce, "NEWOBJ_EX": _new_with_keywords, "BUILD": _build,
    "PERSID": lambda machine, about: machine.stack.append(Persistent(about)),
    "BINPERSID": lambda machine, _: machine.stack.append(Persistent(machine.pop())),
    "EXT1": lambda machine, code: machine.stack.append(Global(f"extension {code}")),
    "EXT2": lambda machine, code: machine.stack.append(Global(f"extension {code}")),
    "EXT4": lambda machine, code: machine.stack.append(Global(f"extension {code}")),
}  # fmt: skip


def load(
    file: BinaryIO,
    seen: list[Persistent] | None = None,
    operations: Iterator[int] | None = None,
    built: Callable[[Any], Any] | None = None,
) -> Any:
    """The tree of the pickle that begins where `file` is; after it, `file` is behind the pickle.

    `seen` gets the references to something beside the pickle. `operations` counts those of all pickles of a file.
    `built` may replace an object that has got its state, and read from `file` what lies there between two operations.
    UnreadableError if it is not a pickle, or has too many operations.
    """
    machine = _Machine()
    try:
        for number, (operation, argument, _) in zip(operations or count(), pickletools.genops(file), strict=False):
            if operation.name == "STOP":
                return machine.pop()
            if number > MOST_OPERATIONS:
                raise UnreadableError(f"the pickle has more than {MOST_OPERATIONS:,} operations")
            machine.run(operation.name, argument)
            if built is not None and operation.name == "BUILD":
                machine.stack[-1] = built(machine.stack[-1])
            if seen is not None and operation.name == "BINPERSID":
                seen.append(machine.stack[-1])
    except BROKEN as error:
        raise UnreadableError(f"it is not a whole pickle: {str(error)[:200] or type(error).__name__}") from error
    raise UnreadableError("the pickle has no end")
