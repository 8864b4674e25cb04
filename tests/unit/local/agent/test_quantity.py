"""Quantities."""

from decimal import Decimal

import pytest

from holdfast.local.agent import quantity
from holdfast.local.agent.errors import AgentError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("8", 8), ("1500m", "1.5"), ("1Ki", 1024), ("32Gi", 32 * 1024**3), ("1k", 1000), ("2E", 2 * 10**18),
        ("2Ei", 2 * 1024**6), ("1e3", 1000), ("1E3", 1000), ("1.5Gi", 3 * 2**29), (".5", "0.5"), ("100n", "1e-7"),
    ],
)  # fmt: skip
def test_exact_values(text: str, value: int | str) -> None:
    """Would break: a memory limit that is a little off, or E read as an exponent."""
    assert quantity.parse(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1.2.3", "0x10", "1e", "one"])
def test_what_is_no_quantity(text: str) -> None:
    """Would break: nonsense read as a number."""
    with pytest.raises(AgentError, match="quantity"):
        quantity.parse(text)


def test_rounding_up() -> None:
    """Would break: resourceFieldRef."""
    assert quantity.ceil_div(Decimal("1.5"), Decimal(1)) == 2
    assert quantity.ceil_div(Decimal(2), Decimal(1)) == 2
