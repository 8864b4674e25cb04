"""The search of a job that has no node: no tier is forgotten, however many there are, and however long each takes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.histories import record
from tests.support.decisions.outlooks import ahead, tier_view
from tests.support.decisions.snapshots import at, attempt, node, status
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, known, seen

from holdfast.api.attempt import AttemptState
from holdfast.api.scalars import format_time
from holdfast.core.capacity.cheapest import cheapest
from holdfast.core.capacity.deadline import deadline
from holdfast.core.capacity.rotation import refusals, search_begun, whose_turn
from holdfast.core.observe.nodes import ClusterView

MINUTE = 60.0


def waited(tier="spot", ended=-60.0, reason="AcquireTimeout", number=2):
    """An attempt that ended without a node."""
    return record(number=number, tier=tier, reason=reason, scheduled_at=None, last_step=None, ended_at=at(ended))


HAD = record()


@pytest.mark.parametrize(
    ("history", "begun"),
    [
        ((), None),
        ((HAD,), HAD.ended_at),
        ((HAD, waited("a", -90), waited("b", -60)), HAD.ended_at),
        ((HAD, waited(reason="Suspended", ended=-70), waited("b", -60)), at(-70)),
        ((waited("a", -90), waited("b", -60)), waited("a", -90).raised_at),  # as far as the history goes
    ],
)
def test_the_time_since_the_job_last_had_a_node(history, begun):
    assert search_begun(history) == begun


def test_the_outlook_says_for_how_long_the_job_has_searched():
    history = (record(ended_at=at(-900)), waited("spot", -60))
    nowhere = attempt(3, AttemptState.ACQUIRING, scheduled_at=None)
    assert ahead(status(nowhere, history=history)).view.searching == 900
    assert ahead(status(attempt(3), history=history)).view.searching == 0


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ((), {}),
        ((HAD,), {}),
        ((waited("a", -90), HAD), {}),  # it has had a node since
        ((HAD, waited("a", -90), waited("b", -60)), {"a": -90, "b": -60}),
        ((waited("a", -90), waited("b", -60), waited("a", -30)), {"a": -30, "b": -60}),
        ((waited("a", -90), waited("b", -60, "OtherTier")), {"a": -90}),  # it was not out, another one was better
        ((waited("a", -90), waited("b", -60, "TierRemoved"), waited("c", -30)), {"a": -90, "c": -30}),
        ((waited("a", -9000), waited("b", -8900, "Suspended"), waited("c", -30)), {"c": -30}),
        ((waited("a", -9000), waited("b", -8900, "BudgetExceeded")), {}),
    ],
)
def test_the_tiers_that_refused_since_the_last_node(history, found):
    assert refusals(history) == {tier: at(ago) for tier, ago in found.items()}


def test_tiers_without_a_refusal_come_first_then_the_one_refused_longest_ago():
    asked, earlier = replace(SPOT, name="asked", refused_ago=60.0), replace(SPOT, name="earlier", refused_ago=90.0)
    just_now = replace(SPOT, name="now", refused_ago=0.0)
    assert list(whose_turn([asked, DEDICATED, CPU])) == [DEDICATED, CPU]
    assert list(whose_turn([asked, earlier, just_now])) == [earlier]
    assert list(whose_turn([])) == []


REFUSED_ONCE = (HAD, waited(ended=-100))
LONG_AGO = (HAD, waited(ended=-1000))


@pytest.mark.parametrize(
    ("given_status", "cluster", "refused"),
    [
        (status(history=REFUSED_ONCE), {}, 100),
        (status(history=LONG_AGO, tiers=(known(**seen("Refused", -1100, -1000)),)), {}, 1000),
        (status(attempt(2, AttemptState.ACQUIRING), history=REFUSED_ONCE), {}, 100),
        (status(attempt(2), history=REFUSED_ONCE), {}, None),  # it is somewhere
        (status(history=LONG_AGO), {"ready_changed_at": at(-2000)}, 1000),  # what stood there then had no room
        (status(history=LONG_AGO), {"ready_changed_at": at(-500), "created_at": at(-500)}, None),  # a new node
        (status(history=(HAD, waited(ended=5))), {}, 0),  # a clock that jumped back
    ],
)
def test_what_a_rule_sees_of_it(given_status, cluster, refused):
    stands = ClusterView([node("n1", **cluster)] if cluster else [])
    assert tier_view("spot", given_status, stands).refused_ago == refused


def test_a_tier_that_gave_others_a_node_since_is_asked_again():
    up = [known(**seen("Up", -50, -10))]
    assert tier_view("spot", status(history=REFUSED_ONCE), shared=up).refused_ago is None
    older = [known(**seen("Up", -500, -10))]  # another job keeps its node: that does not show that there is another one
    assert tier_view("spot", status(history=LONG_AGO), shared=older).refused_ago is None
    assert tier_view("spot", status(history=REFUSED_ONCE), shared=older).refused_ago == 100


IN_A_DAY = format_time(at(30 * 3600))  # less than 2 h more than the work, far too little for a CPU tier


def grid(kinds):
    """Tiers of these kinds, each more expensive than the one before."""
    for n, kind in enumerate(kinds):
        accelerator = {} if kind == "CPU" else {"accelerator": "nvidia.com/gpu"}
        yield {
            "name": f"t{n}",
            "kind": kind,
            "nodeSelector": {"tier": f"t{n}"},
            "pricePerNodeHour": str(n + 1),
        } | accelerator


def search(rule, kinds, waits):
    """Which tiers are asked, one after the other, if each keeps a pod waiting for so long and gives no node."""
    now, history, refused = 0.0, [], {}
    paces = [{} if kind == "CPU" else {"pace": timedelta(seconds=1)} for kind in kinds]
    for wait in waits:
        tiers = tuple(known(f"t{n}", **pace, **_seen(refused, f"t{n}", now)) for n, pace in enumerate(paces))
        kept = enumerate(history[-len(kinds) :], 2)  # no more are
        past = tuple(waited(tier, ended - now, number=number) for number, (tier, ended) in kept)
        job = status(history=(HAD, *past), tiers=tiers)
        tier = rule(ahead(job, tiers=grid(kinds), deadline=IN_A_DAY).view).tier
        now += wait
        history.append((tier, now))
        refused[tier] = (now - wait, now)
        yield tier


def _seen(refused, tier, now):
    if tier not in refused:
        return {}
    since, until = refused[tier]
    return seen("Refused", since - now, until - now)


WAITS = st.floats(MINUTE, 60 * MINUTE)


@given(st.data())
@pytest.mark.parametrize(("rule", "others"), [(cheapest, ["Spot", "Dedicated", "CPU"]), (deadline, ["Spot", "CPU"])])
def test_every_tier_is_asked_before_any_is_asked_again(rule, others, data):
    """Breaks if a tier whose refusal is forgotten comes before untried tiers: their turn would never come."""
    kinds = ["Spot", *data.draw(st.lists(st.sampled_from(others), min_size=1, max_size=15))]
    waits = data.draw(st.lists(WAITS, min_size=len(kinds), max_size=len(kinds)))
    assert sorted(search(rule, kinds, waits)) == sorted(f"t{n}" for n in range(len(kinds)))


@given(count=st.integers(2, 16), rounds=st.integers(2, 3), wait=st.floats(16 * MINUTE, 60 * MINUTE))
def test_then_all_are_asked_again_in_turn(count, rounds, wait):
    kinds = ["Spot"] * (count - 1) + ["Dedicated"]
    asked = list(search(cheapest, kinds, [wait] * (count * rounds)))
    assert len(set(asked)) == count
    assert asked == asked[:count] * rounds
