"""Lists with keys."""

import pytest
from pydantic import ValidationError
from tests.support.manifests.good_manifests import TIER

from holdfast.api.profile import CapacityProfileSpec


def test_two_items_never_share_a_key() -> None:
    assert len(CapacityProfileSpec.model_validate({"tiers": [TIER, {**TIER, "name": "b"}]}).tiers) == 2
    with pytest.raises(ValidationError, match='"spot": no two items may have the same name'):
        CapacityProfileSpec.model_validate({"tiers": [TIER, TIER]})
