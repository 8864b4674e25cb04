"""The ranks of one node read together what all of them need, once, and have one copy of it."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest
import torch
from tests.support.trainer import stores
from tests.support.trainer.attempts import attempt
from tests.support.trainer.stores import environment, identity

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.data import rng
from holdfast_train.ranks import Ranks
from holdfast_train.restore import shared_by_node
from holdfast_train.restore.into_objects import restore, restore_objects, restore_rank
from holdfast_train.restore.restored import Restored
from holdfast_train.storage.folder import FolderStorage

T = TypeVar("T")


class Threads:
    """Several ranks in threads of one process, in place of `Ranks`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size, timeout=60)
        self._values: list[Any] = [None] * size

    def gather_all(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self._barrier.wait()
        found = list(self._values)
        self._barrier.wait()
        return found

    def run(self, function: Callable[[Ranks], T]) -> list[T]:
        """What `function` returns on each rank."""
        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(lambda rank: function(cast("Ranks", Rank(self, rank))), range(self.size)))


class Rank:
    """One of them."""

    def __init__(self, threads: Threads, rank: int) -> None:
        self._threads, self.rank, self.size = threads, rank, threads.size
        self.first = rank == 0

    def gather(self, value: Any) -> list[Any]:
        found = self._threads.gather_all(self.rank, value)
        return found if self.first else []

    def share(self, value: Any) -> Any:
        return self._threads.gather_all(self.rank, value)[0]

    def from_first(self, function: Callable[[], Any]) -> Any:
        return self.share(function() if self.first else None)


class Anything:
    """An object that keeps the state that it loads."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = dict(state)


def varied(factor: int = 1) -> dict[str, Any]:
    """A state of about 12 MiB: tensors that are large, small, empty and without dimensions, an array, and bytes."""
    tied = torch.arange(1 << 20, dtype=torch.float32).view(1 << 10, 1 << 10) * factor
    return {
        "tied": tied,
        "too": tied,
        "large": torch.arange(1 << 20, dtype=torch.int64) * factor,
        "small": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
        "none": torch.empty(0, 3),
        "array": np.arange(1000, dtype=">i4"),
        "blob": bytes(range(256)) * 64,
        "number": factor,
    }


def equal(found: Any, wanted: Any) -> bool:
    return all(
        torch.equal(found[key], value)
        if isinstance(value, torch.Tensor)
        else np.array_equal(found[key], value) and type(found[key]) is type(value)
        for key, value in wanted.items()
    )


class Saved:
    """Two checkpoints of `varied`, in a folder. `read`: bytes that were read from data since."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.environment = environment(f"file://{folder}", 2)
        self.storage = FolderStorage(folder)
        first = attempt(self.storage, identity(1))
        for step in (1, 2):
            stores.save(first, step, {"objects": {"thing": varied(step)}}, [{"rng": step, "objects": {}}] * 3)
        self.read = 0
        original, lock = FolderStorage.read_into, threading.Lock()

        def read_into(storage: FolderStorage, key: str, start: int, *views: memoryview, **more: str) -> None:
            with lock:
                self.read += sum(map(len, views))
            original(storage, key, start, *views, **more)

        monkeypatch.setattr(FolderStorage, "read_into", read_into)

    @property
    def size(self) -> int:
        """Bytes of data of one checkpoint."""
        return sum(entry.size for entry in self.storage.entries("data/") if not entry.key.endswith(".json")) // 2

    def restore(self, count: int) -> list[tuple[Anything, Restored]]:
        """Restore on `count` ranks."""

        def one(ranks: Ranks) -> tuple[Anything, Restored]:
            thing = Anything()
            found = restore(self.environment, ranks, self.choose, {"thing": thing}, {})
            assert found is not None
            restore_objects(found, {"thing": thing}, first=ranks.first)
            return thing, found

        return Threads(count).run(one)

    def choose(self, _: object) -> Checkpoints:
        return attempt(self.storage, identity(2))


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saved:
    monkeypatch.setattr(shared_by_node, "SEGMENT_BYTES", 1 << 20)
    return Saved(tmp_path / "prefix", monkeypatch)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_node_reads_once_what_all_its_ranks_need(saved: Saved, count: int) -> None:
    """Two chunks may be read twice at each cut between two ranks."""
    found = saved.restore(count)
    assert all(equal(thing.state, varied(2)) for thing, _ in found)
    assert saved.read <= saved.size + (count - 1) * 2 * (4 << 20)


def test_no_rank_writes_into_the_memory_of_another(saved: Saved) -> None:
    found = saved.restore(2)
    one, other = (thing.state["large"] for thing, _ in found)
    one.add_(1)
    assert torch.equal(other, varied(2)["large"])
    assert torch.equal(one, varied(2)["large"] + 1)


def test_what_a_program_keeps_gets_memory_of_its_own(saved: Saved) -> None:
    """Breaks if the node's copy stays for as long as the training, as memory without a use."""
    found = saved.restore(2)
    gc.collect()
    assert all(equal(thing.state, varied(2)) for thing, _ in found)
    assert not [line for line in Path("/proc/self/maps").read_text().splitlines() if "holdfast-restore" in line]


def test_one_rank_that_finds_damage_makes_all_take_the_checkpoint_before(saved: Saved) -> None:
    newest = max(key for key in saved.storage.keys("data/") if not key.endswith(".json"))
    file = saved.folder / newest
    file.write_bytes(b"\xff" * file.stat().st_size)
    found = saved.restore(3)
    assert [restored.step for _, restored in found] == [1] * 3
    assert all(equal(thing.state, varied(1)) for thing, _ in found)


@pytest.mark.parametrize("name", ["_new_file", "_open_file"])
def test_ranks_that_cannot_share_memory_read_for_themselves(
    saved: Saved, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shared_by_node, name, lambda *_: None)
    found = saved.restore(3)
    assert all(equal(thing.state, varied(2)) for thing, _ in found)
    assert saved.read >= 3 * saved.size
    assert capsys.readouterr().err.count("the ranks of this node cannot share memory") == 1


def test_ranks_of_other_nodes_do_not_share(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_by_node, "_node", lambda rank: f"node {rank // 2}")
    found = saved.restore(3)
    assert all(equal(thing.state, varied(2)) for thing, _ in found)
    assert 2 * saved.size <= saved.read < 3 * saved.size


class Flat(Anything):
    """An object that also keeps a view of what it loads."""

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.view = self.state["large"][:4]


def test_views_that_an_object_makes_while_it_loads_stay_views(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a tensor gets other memory after the load: training changes one, and checkpoints save the other."""
    monkeypatch.setattr(rng, "restore", lambda _: None)

    def one(ranks: Ranks) -> Flat:
        thing = Flat()
        found = restore(saved.environment, ranks, saved.choose, {"thing": thing}, {})
        assert found is not None
        restore_objects(found, {"thing": thing}, first=ranks.first)
        restore_rank(found, ranks.rank, {})
        return thing

    for thing in Threads(2).run(one):
        thing.view.add_(1)
        assert torch.equal(thing.view, thing.state["large"][:4])
