"""A process that is one of several ranks needs a process group."""

import pytest

from holdfast_train.errors import EnvironmentVariableError, StateError
from holdfast_train.ranks import Ranks


@pytest.fixture(autouse=True)
def outside_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
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


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_a_variable_that_is_not_a_number_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "many")
    with pytest.raises(EnvironmentVariableError, match=f"{name} is 'many'; allowed: a whole number"):
        Ranks(connect=True)
