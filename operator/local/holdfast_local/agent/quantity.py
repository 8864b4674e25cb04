"""Resource quantities of pods and nodes, as the API server stores them."""

from fractions import Fraction

from holdfast.api.errors import ScalarError
from holdfast.api.scalars import quantity_value
from holdfast_local.agent.errors import QuantityError


def read_quantity(text: str | int) -> Fraction:
    """The exact value, such as 1/10 for `100m`. QuantityError, which the agent reports on the pod, if it is not one."""
    try:
        return quantity_value(text)
    except ScalarError as error:
        raise QuantityError(str(error)) from error
