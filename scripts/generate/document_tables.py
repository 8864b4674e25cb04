"""Tables of the fields of the documents of holdfast_protocol, and their place in docs/reference/protocol.md."""

import ast
import dataclasses
import inspect
import json
from collections.abc import Iterator
from typing import Any, Final

from scripts.generate.generated_part import fill

from holdfast_protocol.document import REQUIRED, encode, name_of
from holdfast_protocol.hang import Hang
from holdfast_protocol.member import MemberOrder, MemberReport
from holdfast_protocol.orders import Order, Orders
from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_protocol.report import FirstStep, ProgressReport, Resumed, Saved, Silence, SlowRank, Staging
from holdfast_protocol.verdict import Verdict

SHOWN: Final = (
    ("Verdict", Verdict),
    ("Hang", Hang),
    ("Verdict of a rank", RankVerdict),
    ("Report", ProgressReport),
    ("First step", FirstStep),
    ("Resumed", Resumed),
    ("Saved", Saved),
    ("Silence of the storage", Silence),
    ("Staging", Staging),
    ("Slow rank", SlowRank),
    ("Orders", Orders),
    ("Order", Order),
    ("Report of a member", MemberReport),
    ("Order for a member", MemberOrder),
)
SOURCE = "operator/protocol/holdfast_protocol"


def filled(page: str) -> str:
    """The page with the tables of today between its marks."""
    tables = "".join(f"\n### {title}\n\n| field | default | value |\n|---|---|---|\n{rows(of)}" for title, of in SHOWN)
    return fill(page, SOURCE, f"{tables}\n")


def rows(of: type) -> str:
    """A row of a table for each field of the document."""
    return "".join(f"{row}\n" for row in _rows(of))


def _rows(of: type) -> Iterator[str]:
    described = _descriptions(of)
    for field in dataclasses.fields(of):
        yield f"| `{name_of(field)}` | {_default(field)} | {described[field.name]} |"


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if value is REQUIRED:
        return "required"
    plain = encode(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    is_empty = plain in (None, "", ()) or (
        value is not plain and not any(one is not None for one in vars(value).values())
    )
    return "" if is_empty else f"`{json.dumps(plain)}`"


def _descriptions(of: type) -> dict[str, str]:
    """The text below each field of a class, without the full stop at its end."""
    (body,) = ast.parse(inspect.getsource(of)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = str(after.value.value).rstrip(".")
    return found
