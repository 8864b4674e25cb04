"""Workers of an evaluation do not change the random numbers of the training."""

from typing import Any

import torch
from torch.utils.data import DataLoader

from holdfast_train.frameworks.kept_workers import separate_workers

DATA: Any = [1, 2]


# Breaks if new workers draw from the generator of the training.
def test_workers_that_stay_draw_nothing_from_the_generator_of_the_training() -> None:
    loader = DataLoader(DATA, num_workers=1, persistent_workers=True)
    separate_workers(loader)
    before = torch.get_rng_state()
    list(loader)
    assert torch.equal(torch.get_rng_state(), before)


# Breaks if a loader that draws in each epoch is changed, or one with a generator.
def test_other_loaders_are_left_as_they_are() -> None:
    plain, generator = DataLoader(DATA), torch.Generator()
    own = DataLoader(DATA, num_workers=1, persistent_workers=True, generator=generator)
    separate_workers(plain)
    separate_workers(own)
    assert plain.generator is None
    assert own.generator is generator
