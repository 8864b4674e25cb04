"""What all tests of single parts have in common."""

import pytest
from tests.support.operator.operator_process import OperatorProcess


@pytest.fixture(scope="module", autouse=True)
def _no_lasting_operator(lasting_operators: list[OperatorProcess]) -> None:
    """No operator of whole jobs runs in the shared cluster: these tests have jobs that it may not touch."""
    for operator in lasting_operators:
        operator.stop()
