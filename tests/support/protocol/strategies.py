"""Documents for tests with hypothesis: good ones of any class, and any JSON."""

import collections.abc
import dataclasses
import typing
from typing import Any

from hypothesis import strategies as st

from holdfast_protocol.document import REQUIRED

TEXTS = st.text(max_size=20) | st.sampled_from(["$(HOME)", "$$", "Auto", "Min", "s3://b/p", "\\", '"', "\0"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def documents(of: type) -> st.SearchStrategy[Any]:
    """Documents of the class `of`: each field has its default, or a value that fits it."""
    hints = typing.get_type_hints(of)
    return st.builds(of, **{one.name: _values(one, hints[one.name]) for one in dataclasses.fields(of)})


def _values(field: dataclasses.Field[Any], hint: Any) -> st.SearchStrategy[Any]:
    if field.name == "version":
        return st.just(field.default)
    tried = _of_hint(hint)
    return tried if field.default is REQUIRED else st.just(field.default) | tried


def _of_hint(hint: Any) -> st.SearchStrategy[Any]:
    if dataclasses.is_dataclass(hint):
        return documents(typing.cast("type", hint))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is collections.abc.Mapping:
        return st.dictionaries(_of_hint(arguments[0]), _of_hint(arguments[1]), max_size=3)
    if origin is tuple:
        return st.lists(_of_hint(arguments[0]), max_size=3).map(tuple)
    if arguments:  # one of several types
        return st.one_of(*map(_of_hint, arguments))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(),
        bool: st.booleans(),
        int: st.integers(1, 1000),
        float: st.floats(0.5, 1e6),
        str: st.sampled_from(["$(HOME)", "$$", "Auto", "s3://b/p", "\\", '"', "a b", "\u00fc"]),
    }
    return simple[hint]
