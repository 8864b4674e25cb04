"""A quantity that cannot be read is an error of the agent, which it reports on the pod."""

from fractions import Fraction

import pytest

from holdfast_local.agent.errors import AgentError
from holdfast_local.agent.quantity import read_quantity


def test_exact_values() -> None:
    assert [read_quantity(text) for text in ("100m", "1Gi", 8)] == [Fraction(1, 10), 2**30, 8]


@pytest.mark.parametrize("text", ["", "Gi", "1gi", "one"])
def test_text_that_is_not_a_quantity(text: str) -> None:
    with pytest.raises(AgentError, match="quantity"):
        read_quantity(text)
