"""operator/holdfast/api/figure_fields.py: the figures of a program as fields of status.progress."""

from textwrap import fill
from typing import Final

from holdfast_protocol.figures import BYTES, LOSS, NUMBER, ROWS, SHARE, Row

_HEADER: Final = '''"""The figures of a program as fields of status.progress.

Generated from operator/protocol/holdfast_protocol/figures.py by `make crds`. Do not edit.
"""

from holdfast.api.attempt import Number
from holdfast.api.model import Model
from holdfast.api.scalars import Step


class FigureFields(Model):
    """The newest figures of the program."""

'''
_TYPES: Final = {
    NUMBER: ("Number", "A decimal string."),
    LOSS: ("Number", "A decimal string, nan, inf or -inf."),
    SHARE: ("Number", "A decimal string."),
    BYTES: ("Step", "In bytes."),
}


def text() -> str:
    """The module."""
    return _HEADER + "".join(map(_field, ROWS))


def _field(row: Row) -> str:
    kind, form = _TYPES[row.kind]
    said = fill(f'"""{row.text}. {form}"""', 120, initial_indent="    ", subsequent_indent="    ")
    return f"    {row.name}: {kind} | None = None\n{said}\n"
