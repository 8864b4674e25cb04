"""Generators of random numbers that a program's own objects carry: find them, and let calls depend on a key alone."""

import functools
import logging
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from holdfast_train.data import rng
from holdfast_train.data_wait import DATA_WAIT
from holdfast_train.errors import StateError

T = TypeVar("T")
LONG: Final = 1000  # elements of a container of which only the types are looked at: they are data
MOST: Final = 100_000  # objects that a search looks at, the nearest ones first
MANY: Final = (
    100  # objects and elements for which it takes a part of a millisecond: then it is not repeated at each call
)

_LEAVES: Final = (
    types.NoneType,
    str,
    bytes,
    bytearray,
    memoryview,
    int,
    float,
    complex,
    range,
    type,
    types.ModuleType,
    logging.Logger,
)
_CONTAINERS: Final = (dict, list, tuple, deque)
_BOUND: Final = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)


def generators_in(**roots: Any) -> dict[str, Any]:
    """The generators inside `roots`, by their places: in attributes, lists, tuples and dicts, closures, bound methods
    and partials, at any depth. A place begins with the name of the root.

    Of a container with more than LONG elements only the elements themselves are looked at. Tensors, arrays, and modules
    with parameters (a model that a collate function knows) are not looked into.
    """
    return {found.place: found.generator for found in _search(roots)[0]}


class Repeatable:
    """Calls whose random numbers depend on a key alone: of the global generators of Python, NumPy and torch on the CPU,
    and of all generators inside `roots`.

    So a call gives the same in any worker, and after any other calls. Outside the workers of a loader the generators
    belong to the program: their states are restored after the call. StateError names a generator that cannot be seeded,
    and refuses a call in another thread than the one that trains: both would draw from the global generators.
    """

    def __init__(self, **roots: Any) -> None:
        self._roots = roots
        self._own: list[_Found] = []
        self._calls = 0
        self._is_large = False
        self._find()

    def call(self, key: str, function: Callable[[], T]) -> T:
        """What `function` returns. If it makes a generator, it is called once more, with that one seeded as well."""
        _check_thread()
        self._find()
        own = self._own
        before = None if _in_worker() else (rng.capture_host(), _states(own))
        self._calls += 1
        try:
            self._seed(key)
            found = function()
            self._find()
            if {one.place for one in self._own} - {one.place for one in own}:
                self._seed(key)
                found = function()
            return found
        finally:
            if before is not None:
                rng.restore_host(before[0])
                for one, state in zip(own, before[1], strict=True):
                    rng.set_own_state(one.generator, state)

    def _seed(self, key: str) -> None:
        rng.seed_host(key)
        for one in self._own:
            rng.seed_own(one.generator, f"{key}/{one.place}")

    def _find(self) -> None:
        """Search, as a program may make and replace generators at any time. Large objects are searched up to the second
        call: from then on it is only noticed if the program replaces a generator that it has."""
        if self._is_large and self._calls > 1:
            self._own = [one.current() for one in self._own]
            return
        self._own, work = _search(self._roots)
        _states(self._own)
        self._is_large = work > MANY


class _Found(NamedTuple):
    """A generator, where it is, and the object that has it in the attribute `name`, if one has."""

    place: str
    generator: Any
    holder: Any
    name: str

    def current(self) -> "_Found":
        """What is there now."""
        attributes = getattr(self.holder, "__dict__", None)
        value = attributes.get(self.name) if isinstance(attributes, dict) else None
        return self._replace(generator=value) if rng.is_generator_type(type(value)) else self


def _check_thread() -> None:
    if DATA_WAIT.run_thread not in (None, threading.get_ident()) and not _in_worker():
        raise StateError(
            "a batch is read in another thread than the one that trains, as if batches were fetched ahead. Random "
            "numbers of the data would be mixed with those of the training, because both threads have the same "
            "generators: give the loader num_workers=1 or more, and read it in any thread"
        )


def _states(own: list[_Found]) -> list[Any]:
    return [rng.own_state(one.place, one.generator) for one in own]


def _search(roots: dict[str, Any]) -> tuple[list[_Found], int]:
    """The generators, and how many objects and elements were looked at."""
    found: list[_Found] = []
    todo: deque[_Found] = deque(_Found(name, root, None, "") for name, root in roots.items())
    seen: dict[int, Any] = {}  # the objects are kept, because another one could get the same id
    work = 0
    while todo and len(seen) < MOST:
        one = todo.popleft()
        value = one.generator
        if id(value) in seen:
            continue
        seen[id(value)] = value
        work += 1
        if rng.is_generator_type(type(value)):
            found.append(one)
            continue
        if isinstance(value, _CONTAINERS):
            work += len(value)
        for name, inner in _inside(value):
            if not _is_leaf(type(inner)):
                todo.append(_Found(f"{one.place}{name}", inner, value, name.removeprefix(".")))
    return found, work


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of `value` that may have generators, with the text that names each of them."""
    if isinstance(value, _CONTAINERS):
        yield from _elements(value)
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, _BOUND):
        yield ".self", value.__self__
        yield ".func", getattr(value, "__func__", None)
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield f".{name}", _content(cell)
        yield from ((".defaults", value.__defaults__), (".kwdefaults", value.__kwdefaults__))
    attributes = getattr(value, "__dict__", None)
    if _has_parameters(value) or not isinstance(attributes, dict | None):
        return
    yield from ((f".{name}", inner) for name, inner in list((attributes or {}).items()))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if isinstance(vars(kind).get(name), types.MemberDescriptorType) and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not set yet
        return None


def _elements(container: Any) -> Iterator[tuple[str, Any]]:
    is_dict = isinstance(container, dict)
    kinds = set(map(type, dict.values(container) if is_dict else container))
    is_long = len(container) > LONG
    wanted = {kind for kind in kinds if not _is_leaf(kind) and (not is_long or rng.is_generator_type(kind))}
    if not wanted:
        return
    pairs = dict.items(container) if is_dict else enumerate(container)
    for number, (name, inner) in enumerate(list(pairs)):
        if type(inner) in wanted:
            # The name of another kind of key may be another one in each process.
            yield f"[{name!r}]" if isinstance(name, (str, int)) else f"[{number}]", inner


def _is_leaf(kind: type) -> bool:
    """True if no object of this type has parts that may have generators."""
    if issubclass(kind, _LEAVES):
        return True
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    if torch is not None and issubclass(kind, torch.Tensor):
        return True
    return numpy is not None and issubclass(kind, (numpy.ndarray, numpy.generic))


def _has_parameters(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module) and next(value.parameters(), None) is not None


def _in_worker() -> bool:
    torch_data: Any = sys.modules.get("torch.utils.data")
    return torch_data is not None and torch_data.get_worker_info() is not None
