"""What the readers of formats make of a file: values by their place."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from holdfast_cli.rehearse.compare.reading.source import Memory, Source

MOST_VALUES: Final = 100_000  # of one file
MOST_VISITS: Final = 1_000_000  # of nodes, while a file is laid flat: a small pickle can name one node very often
DEEPEST: Final = 64  # containers inside each other
MOST_MADE: Final = 256 << 20  # bytes that are made of the nodes of one file, also for the places of its values
MOST_NODES: Final = 2_000_000  # of a document of JSON; a longer one is compared as bytes
TEXT: Final = 4096  # characters of a text that are kept
LONG_LIST: Final = 256  # numbers: from here on a list is one value

_NODE: Final = 128  # bytes, about, of a pair or an item


class UnreadableError(Exception):
    """A file is not what its first bytes say, or is beyond the limits. The message says why."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Numbers of one type, in the order of `source`.

    `dtype`: as torch names it, such as `float32`; numbers of other types are compared as bytes. `is_swapped`: they are
    in big-endian order. `strides`: how the elements lie if that is not row by row. `is_list`: it was a long list of
    numbers, not a tensor.
    """

    dtype: str
    shape: tuple[int, ...]
    source: Source
    is_swapped: bool = False
    strides: tuple[int, ...] | None = None
    is_list: bool = False

    @property
    def kind(self) -> str:
        """`float32 [64, 512]`."""
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes whose meaning is not known."""

    source: Source


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping: its keys may be of any type, and may repeat."""

    pairs: Sequence[tuple[object, object]]


@dataclass(frozen=True, slots=True)
class Named:
    """An object of a class, or the answer of a function, that was not made: its name and what belongs to it."""

    name: str
    parts: Sequence[tuple[str, object]]


Value: TypeAlias = "Tensor | Raw | str | int | float | None"


@dataclass(frozen=True, slots=True)
class Contents:
    """Values of a file by their place, in the order of the file.

    `form`: the format in words. `note`: what was not understood.
    """

    form: str
    values: Mapping[str, Value]
    note: str = ""


@dataclass
class _Flat:
    understand: Callable[[object], object]
    values: dict[str, Value] = field(default_factory=dict)
    made: int = 0  # bytes, about
    known: dict[int, tuple[object, object]] = field(default_factory=dict)
    repeated: Counter[str] = field(default_factory=Counter)

    def put(self, place: str, value: Value) -> None:
        name = place
        while name in self.values:
            self.repeated[place] += 1
            name = f"{place}#{self.repeated[place] + 1}"
        self.values[name] = value
        self.made += len(name)

    def meaning(self, node: object) -> object:
        """What a node means. It is made once, although a small pickle can name one node very often."""
        if isinstance(node, bool | float | None) or (isinstance(node, int | str) and sys.getsizeof(node) < TEXT):
            return _leaf(node)
        if id(node) not in self.known:
            found = self.understand(node)
            found = _leaf(found) if isinstance(found, str | int) else found
            if found is node and not (isinstance(node, list | tuple) and len(node) >= LONG_LIST):
                return node
            self.known[id(node)] = node, found
            self.made += 2 * _NODE + (_size(found) if found is not node else 0)
        return self.known[id(node)][1]


def _size(found: object) -> int:
    """About how many bytes a value or a container has in memory."""
    if isinstance(found, Tensor | Raw):
        return found.source.size if isinstance(found.source, Memory) else 0
    below = found.pairs if isinstance(found, Pairs) else found.parts if isinstance(found, Named) else found
    return _NODE * len(below) if isinstance(below, list | tuple) else 0


def flatten(
    tree: object, understand: Callable[[object], object] = lambda node: node, top: str = ""
) -> tuple[dict[str, Value], str]:
    """The leaves of `tree` by their places, such as `model.layers.0.weight` and `log_history[3].loss`.

    `understand` makes a value, or a container of nodes, of each node. The text says what is left out because it is
    beyond the limits; it is empty if nothing is.
    """
    flat, note = _Flat(understand), ""
    waiting: list[Iterator[tuple[str, object]]] = [iter([(top, tree)])]  # one for each container that is entered
    visits = 0
    while waiting:
        if (found := next(waiting[-1], None)) is None:
            waiting.pop()
            continue
        visits += 1
        if len(flat.values) >= MOST_VALUES or visits > MOST_VISITS or flat.made > MOST_MADE:
            return flat.values, f"only the first {len(flat.values):,} values are compared one by one"
        place, node = found
        if len(waiting) > DEEPEST:
            note = f"values more than {DEEPEST} levels deep are not compared one by one"
            continue
        node = flat.meaning(node)
        if isinstance(node, Tensor | Raw | str | int | float | None):
            flat.put(place, node)
        elif _is_empty(node):
            flat.put(place, _empty(node))
        else:
            waiting.append(_below(place, node))
    return flat.values, note


def check_nodes(count: int) -> None:
    """UnreadableError if a document of JSON has more values than it may have: each takes 100 bytes and more."""
    if count > MOST_NODES:
        raise UnreadableError(f"it has more than {MOST_NODES:,} values")


def _leaf(value: Value) -> Value:
    if isinstance(value, str) and len(value) > TEXT:
        return Raw(_encoded(value))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 64:
        return hex(value) if value.bit_length() < 4 * TEXT else Raw(_encoded(hex(value)))
    return value


def _encoded(text: str) -> Source:
    return Memory(text.encode("utf-8", "surrogatepass"))


def _is_empty(node: object) -> bool:
    below = node.pairs if isinstance(node, Pairs) else node.parts if isinstance(node, Named) else node
    return isinstance(below, list | tuple) and not below


def _empty(node: object) -> str:
    return f"an empty {'mapping' if isinstance(node, Pairs) else 'list'}" if not isinstance(node, Named) else node.name


def _below(place: str, node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, Pairs):
        yield from ((_joined(place, key), value) for key, value in node.pairs)
    elif isinstance(node, Named):
        yield f"{place}:type", node.name
        yield from ((_joined(place, name) if name else place, value) for name, value in node.parts)
    elif isinstance(node, list | tuple):
        yield from ((f"{place}[{number}]", value) for number, value in enumerate(node))
    else:
        yield place, f"a value of the type {type(node).__name__}"


def _joined(place: str, key: object) -> str:
    name = key_name(key)
    return f"{place}.{name}" if place and name else place + name


def key_name(key: object) -> str:
    """A key of a mapping as a part of a place."""
    if isinstance(key, str):
        return key if len(key) <= 200 else key[:200] + "..."
    if isinstance(key, int):
        return str(key) if abs(key) < 1 << 64 else "a large number"
    if isinstance(key, float | None):
        return repr(key)
    if isinstance(key, tuple | list) and len(key) <= 8:
        return f"({', '.join(key_name(one) if not isinstance(one, tuple | list) else '...' for one in key)})"
    return key.name if isinstance(key, Named) else f"a {type(key).__name__}"
