"""The newest checkpoints in the stores of programs with `Run`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.rehearsed import left
from tests.support.trainer import stores
from tests.support.trainer.attempts import attempt
from tests.support.trainer.stores import identity

from holdfast_cli.rehearse.compare.difference import Effort
from holdfast_cli.rehearse.compare.findings import File, Kind, Standing
from holdfast_cli.rehearse.compare.stores import compare_stores
from holdfast_cli.rehearse.left import Left
from holdfast_train.storage.folder import FolderStorage


def run(place: Path, name: str, state: dict[str, Any], step: int = 60, seed: int = 1) -> Left:
    (place / name).mkdir()
    store = FolderStorage(place / name / "job")
    checkpoints = attempt(store, identity(uid=name))
    stores.save(checkpoints, step, {"objects": state}, [{"rng": seed}])
    return left(name, store=store)


def state(last: float = 3.0, rate: float = 0.1) -> dict[str, Any]:
    return {"w": np.array([1.0, 2.0, last] * 500), "big": np.arange(1000), "rate": rate}


def compared(*runs: Left) -> File:
    return compare_stores(runs[0], runs[1], runs[2], Effort())


# Breaks if checkpoints with the same state differ, because their jobs or times do.
def test_equal_checkpoints(tmp_path: Path) -> None:
    found = compared(*(run(tmp_path, name, state()) for name in "abc"))
    assert (found.standing, found.places) == (Standing.EQUAL, ())
    assert (found.path, found.equal[Kind.WEIGHT]) == ("checkpoint of step 60", 1)


# Breaks if a tensor or a plain value that differs is not found, or not by how much.
def test_what_differs(tmp_path: Path) -> None:
    a, b = (run(tmp_path, name, state()) for name in "ab")
    found = compared(a, b, run(tmp_path, "c", state(3.5, 0.2)))
    assert {place.place: place.amount.absolute for place in found.places if place.amount is not None} == {
        "w": 0.5,
        "rate": pytest.approx(0.1),
    }
    assert found.standing is Standing.DIFFERS


# Breaks if what the undisturbed runs do not agree on is blamed.
def test_own_noise(tmp_path: Path) -> None:
    a, b, c = (run(tmp_path, name, state(3.0 + n / 10), seed=n) for n, name in enumerate("abc"))
    found = compared(a, b, c)
    assert (found.standing, found.noisy_weights) == (Standing.NOISE, 1)


# Breaks if a checkpoint of another step, no checkpoint or no store raises, or is equal.
def test_other_stores(tmp_path: Path) -> None:
    a, b = (run(tmp_path, name, state()) for name in "ab")
    found = compared(a, b, run(tmp_path, "c", state(), step=50))
    assert (found.standing, found.note) == (Standing.MISSING, "the rehearsed run has the newest checkpoint of step 50")
    gone = left("d", store=FolderStorage(tmp_path / "d" / "job"))
    assert compared(a, b, gone).standing is Standing.MISSING
    found = compared(a, gone, b)
    assert (found.standing, found.note) == (Standing.NOT_COMPARED, "no checkpoint is in the store of: d")
    for key in (tmp_path / "b").rglob("*"):
        if key.is_file():
            key.chmod(0o644)
            key.write_bytes(b"damaged")
    assert compared(a, b, a).standing is Standing.NOT_COMPARED


# Breaks if a text is taken for the number that it looks like, or a key for another one.
def test_values_have_types(tmp_path: Path) -> None:
    states = (("a", 1, 3), ("b", 1, 3), ("c", "1", 4))
    found = compared(*(run(tmp_path, name, {"x": x, "m": {1: 2.5, "1": y}}) for name, x, y in states))
    assert {spot.place: (spot.first, spot.second) for spot in found.places} == {"x": ("1", "1"), "m.1#2": ("3", "4")}
