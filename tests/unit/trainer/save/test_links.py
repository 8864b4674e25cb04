"""Which rank keeps whose copy."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.trainer.stores import environment
from tests.unit.trainer.restore.test_shared_by_node import Threads

from holdfast_protocol.settings import Settings
from holdfast_train.environment import Environment
from holdfast_train.ranks import Ranks
from holdfast_train.save.links import Links, link, next_rank


@pytest.mark.parametrize(
    ("nodes", "keepers"),
    [
        ("ab", [1, 0]),
        ("abc", [1, 2, 0]),
        ("aabbcc", [2, 3, 4, 5, 0, 1]),
        ("abab", [1, 0, 3, 2]),  # ranks of a node need not be neighbours
        ("aaab", [3, 3, 3, 0]),
    ],
)
def test_the_rank_with_the_same_place_on_the_next_node(nodes: str, keepers: list[int]) -> None:
    found = [next_rank(list(nodes), rank) for rank in range(len(nodes))]
    assert found == keepers
    assert all(nodes[rank] != nodes[keeper] for rank, keeper in enumerate(found))


def own(rank: int, **changes: Any) -> Environment:
    found = environment(None)
    found = replace(found, identity=replace(found.identity, pod_uid=f"pod-{rank}"))
    return replace(found, nodes=2, pod_ip="127.0.0.1", settings=Settings(peers=True), **changes)


def linked(*environments: Environment) -> list[Links | None]:
    def of(ranks: Ranks) -> Links | None:
        return link(environments[ranks.rank], ranks)

    return Threads(len(environments)).run(of)


def test_each_rank_knows_the_address_and_the_token_of_the_other() -> None:
    first, second = linked(own(0), own(1))
    assert first is not None
    assert second is not None
    for mine, other in ((first, second), (second, first)):
        assert mine.names.to == other.listener.getsockname()
        assert mine.names.to_token == other.names.token != mine.names.token
        assert mine.names.listener == mine.listener.fileno()
    first.listener.close()
    second.listener.close()


# Breaks if one rank sends for ever to one that cannot listen, or if the ranks disagree and one waits.
def test_if_one_rank_cannot_listen_no_rank_is_linked(capsys: pytest.CaptureFixture[str]) -> None:
    assert linked(own(0), replace(own(1), pod_ip="192.0.2.1")) == [None, None]
    assert capsys.readouterr().err.count("no copies of the state are sent to other nodes") == 2


@pytest.mark.parametrize("changes", [{"settings": Settings()}, {"nodes": 1}])
def test_without_the_setting_nothing_listens(changes: dict[str, Any]) -> None:
    assert linked(*(replace(own(rank), **changes) for rank in range(2))) == [None, None]
