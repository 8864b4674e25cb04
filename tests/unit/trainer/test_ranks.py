"""A process that is one of several ranks needs a process group."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed

from holdfast_train.errors import EnvironmentVariableError, StateError
from holdfast_train.ranks import Ranks, _connect_again


@pytest.fixture(autouse=True)
def outside_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "HOLDFAST_NODES", "HOLDFAST_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "2"}, "rank 0 of 2"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "rank 1 of 2"),
        ({"RANK": "3"}, "rank 3 of 4"),
    ],
)
def test_a_rank_of_several_without_a_process_group_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    """Breaks if a rank starts by itself: rank 1 would begin at step 0 while rank 0 resumes."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StateError, match=f"{words} .* call torch.distributed.init_process_group"):
        Ranks(connect=True)
    assert Ranks(connect=False).size == 1


@pytest.mark.parametrize("variables", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "", "WORLD_SIZE": ""}])
def test_one_rank_needs_no_process_group(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    alone = Ranks(connect=True)
    assert (alone.rank, alone.size, alone.first) == (0, 1, True)
    assert alone.any(True, False) == (True, False)


# Breaks if each node may train by itself: all would write the checkpoints of one attempt.
def test_a_node_without_a_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_NODES", "3")
    monkeypatch.setenv("HOLDFAST_RANK", "1")
    with pytest.raises(StateError, match=r"3 nodes .* node 0 has no rank .* call torch.distributed.init_process_group"):
        Ranks(connect=True)
    monkeypatch.setenv("HOLDFAST_NODES", "1")
    assert Ranks(connect=True).size == 1


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_a_variable_that_is_not_a_number_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "many")
    with pytest.raises(EnvironmentVariableError, match=f"{name} is 'many'; allowed: a whole number"):
        Ranks(connect=True)


@pytest.fixture
def older_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch before 2.8."""
    monkeypatch.delattr(torch.distributed.Store, "clone")


@pytest.mark.parametrize("old", [True, False])
def test_every_torch_can_connect_to_a_store_again(old: bool, request: pytest.FixtureRequest) -> None:
    """Breaks if several ranks cannot train with the torch of their image."""
    if old:
        request.getfixturevalue("older_torch")
    served = torch.distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    store = torch.distributed.PrefixStore("default_pg", torch.distributed.PrefixStore("attempt", served))
    first, second = (_connect_again(torch.distributed, store) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(first.get, "key")  # this holds up all that use the same connection
        second.set("key", b"value")
        assert waiting.result(20) == b"value"


@pytest.mark.usefixtures("older_torch")
def test_a_store_without_a_second_connection_is_refused(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 2)
    with pytest.raises(StateError, match=r"a FileStore, to which torch before 2\.8 cannot .* use torch 2\.8 or newer"):
        _connect_again(torch.distributed, torch.distributed.PrefixStore("a", store))
