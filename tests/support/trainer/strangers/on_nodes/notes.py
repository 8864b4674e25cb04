"""What a program tells the test, in a file for each rank, and where it waits until the test lets it go on."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from tests.support.waiting import wait_for

WAIT_SECONDS = 200.0


class Notes:
    """Of the rank of this process, in `place`. After the save of each step in `holds` it waits for the file `go-STEP`.

    `holds`: steps, with commas between them.
    """

    def __init__(self, place: str, holds: str) -> None:
        self._place = Path(place)
        self._file = self._place / f"notes-{os.environ['RANK']}"
        self._holds = {int(step) for step in holds.split(",") if step}

    def write(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def start(self, step: int) -> None:
        """The program begins after this step."""
        self.write(f"start {step}")

    def loss(self, step: int, loss: float) -> None:
        self.write(f"loss {step} {loss.hex()}")

    def saved(self, step: int) -> None:
        self.random()
        self.write(f"saved {step}")
        if step in self._holds:
            wait_for((self._place / f"go-{step}").exists, WAIT_SECONDS, f"go-{step}")

    def random(self) -> None:
        """The state of the random numbers of this rank."""
        self.write(f"random {hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()}")

    def result(self, values: Iterable[torch.Tensor]) -> None:
        """The weights at the end, or the part of them that this rank has."""
        digest = hashlib.sha256(b"".join(value.detach().contiguous().numpy().tobytes() for value in values))
        self.write(f"result {digest.hexdigest()}")
