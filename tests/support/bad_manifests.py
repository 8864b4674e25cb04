"""Manifests with one mistake each: the API server and `holdfast check --offline` must refuse every one of them."""

from typing import Final

from tests.support.bad_capacity import BAD_CAPACITY
from tests.support.bad_checkpoints import BAD_CHECKPOINTS
from tests.support.bad_trainers import BAD_TRAINERS
from tests.support.manifests import Bad

BAD: Final[tuple[Bad, ...]] = (*BAD_TRAINERS, *BAD_CAPACITY, *BAD_CHECKPOINTS)
