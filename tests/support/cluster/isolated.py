"""Isolated networks in tests: only where this user on this machine can make them."""

import pytest

from holdfast_local.errors import ConfigError
from holdfast_local.network import links


def _missing() -> str:
    try:
        links.check_possible()
    except ConfigError as error:
        return str(error)
    return ""


MISSING = _missing()
"""Why it cannot be made; empty if it can."""

needs_isolation = pytest.mark.skipif(bool(MISSING), reason=MISSING)
