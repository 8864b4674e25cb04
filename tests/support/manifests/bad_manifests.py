"""Manifests with one mistake each: the API server and `holdfast check --offline` must refuse every one of them."""

from typing import Final

from tests.support.manifests.bad_capacity import BAD_CAPACITY
from tests.support.manifests.bad_checkpoints import BAD_CHECKPOINTS
from tests.support.manifests.bad_data import BAD_DATA
from tests.support.manifests.bad_trainers import BAD_TRAINERS
from tests.support.manifests.good_manifests import Bad

BAD: Final[tuple[Bad, ...]] = (*BAD_TRAINERS, *BAD_CAPACITY, *BAD_CHECKPOINTS, *BAD_DATA)
