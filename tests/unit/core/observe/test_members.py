"""Members of trainings on several nodes, and how long their nodes were used."""

from copy import deepcopy
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import running
from tests.support.decisions.snapshots import at, attempt, job, pod, snapshot, status
from tests.support.trainer.pod_settings import settings_of

from holdfast.api.attempt import MAX_GROUPS, AttemptState, MemberGroup
from holdfast.core.decide import decide
from holdfast.core.decision import CreatePod
from holdfast.core.observe.members import births, fresh_ranks, groups_of, inherited, is_member, node_time, pods_by_rank

GROUPS = (MemberGroup(born=1, ranks="0-1,3"), MemberGroup(born=4, ranks="2"))


def four(**changes):
    return attempt(4, AttemptState.RUNNING, nodes=4, **{"members": GROUPS, "inherited_at": at(-50), **changes})


def test_who_created_which_pod():
    assert births(four()) == {0: 1, 1: 1, 2: 4, 3: 1}
    assert births(four(members=())) == {0: 4, 1: 4, 2: 4, 3: 4}
    assert fresh_ranks(four()) == (2,)
    assert (inherited(four()), inherited(four(members=()))) == (3, 0)


def test_no_status_has_more_groups_than_the_api_allows():
    """Breaks if the API server refuses the status for ever, once pods were lost one by one while they waited."""
    born = {rank: min(rank + 1, MAX_GROUPS) for rank in range(MAX_GROUPS + 1)}  # the last two are its own
    waits = {"nodes": len(born), "created_at": at(-300), "acquire_deadline": at(900)}
    current = attempt(MAX_GROUPS, AttemptState.ACQUIRING, members=groups_of(born, MAX_GROUPS), **waits)
    spec = {"image": "registry.example/train:1", "command": ["python3", "train.py"], "nodes": len(born)}
    pods = (pod(by, rank=rank, uid=f"u-{rank}") for rank, by in list(born.items())[:-1])
    found = decide(snapshot(job(status(current), trainer=spec), *pods)).status.current
    assert len(current.members) == MAX_GROUPS
    assert (found.number, len(found.members) <= MAX_GROUPS) == (MAX_GROUPS + 1, True)


@given(st.dictionaries(st.integers(0, 63), st.integers(1, 9), min_size=1))
def test_groups_say_the_same_as_births(born):
    whole = {rank: born.get(rank, 9) for rank in range(64)}
    assert births(attempt(9, nodes=64, members=groups_of(whole, 9))) == whole


@pytest.mark.parametrize(("born", "rank", "expected"), [(1, 0, True), (4, 2, True), (1, 2, False), (4, 0, False)])
def test_a_member_is_known_by_its_rank_and_the_attempt_that_created_it(born, rank, expected):
    found = pod(born, rank=rank)
    assert is_member(four(), found) is expected
    assert (rank in pods_by_rank([found], four())) is expected


def test_the_only_pod_of_one_node():
    assert is_member(attempt(2), pod(2))
    assert not is_member(attempt(2), pod(1))
    assert not is_member(None, pod(1))


@pytest.mark.parametrize(("changes", "seconds"), [
    ({"scheduled_at": at(-20)}, 3 * 50 + 20),
    ({"scheduled_at": at(-20), "inherited_at": None}, 20),  # a successor: the attempt before it pays for the others
    ({"scheduled_at": None}, 3 * 50),
    ({"scheduled_at": at(-20), "members": ()}, 4 * 20),
])  # fmt: skip
def test_node_time_counts_every_node(changes, seconds):
    one = four(**changes)
    assert node_time(one, one.scheduled_at, at(0)) == timedelta(seconds=seconds)


def test_node_time_since_a_change_of_the_price():
    one = four(scheduled_at=at(-20))
    assert node_time(one, one.scheduled_at, at(0), since=at(-10)) == timedelta(seconds=40)


def imported_by_new_pods(world: GangWorld) -> list[tuple[str, ...]]:
    made = [action for action in decide(world.snapshot()).actions if isinstance(action, CreatePod)]
    return [settings_of(action.manifest["spec"]["containers"][0]).imports for action in made]


def test_a_new_pod_imports_early_while_the_others_train():
    """Breaks if the others wait for the imports of the pod that comes after a notice, or for imports made twice."""
    world = running()
    world.imports = ("torch", "numpy")
    lost, noticed = deepcopy(world), deepcopy(world)
    noticed.notice(noticed.node_of(2))
    assert imported_by_new_pods(noticed) == [("torch", "numpy")]
    lost.remove(lost.node_of(2))
    assert imported_by_new_pods(lost) == [()]
    world.imports = ()
    world.notice(world.node_of(2))
    assert imported_by_new_pods(world) == [()]
