"""Kubernetes resource quantities, exact."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

from holdfast.local.agent.errors import AgentError

_SUFFIX = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
} | {unit + "i": Decimal(1024**power) for power, unit in enumerate("KMGTPE", start=1)}

_SHAPE = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")


def parse(text: str | int) -> Decimal:
    """`100m` -> 0.1, `1Gi` -> 1073741824, `1e3` -> 1000. Raises AgentError for anything else."""
    found = _SHAPE.fullmatch(str(text).strip())
    if not found:
        raise AgentError(f"quantity {text!r} is not one: use a number with an optional suffix such as m, k, Mi, Gi")
    number, exponent, suffix = found.groups()
    if exponent is not None:
        return Decimal(number).scaleb(int(exponent))
    return Decimal(number) * _SUFFIX[suffix or ""]


def ceil_div(value: Decimal, divisor: Decimal) -> int:
    """How often the divisor goes into the value, rounded up."""
    return int((value / divisor).to_integral_value(rounding=ROUND_CEILING))
