"""What follows from all observations of a tier: if it is up, what a move costs, and if watching it costs money."""

from datetime import timedelta
from decimal import Decimal
from math import inf

import pytest
from tests.support.decisions.outlooks import PRICED, tier_view, view
from tests.support.decisions.snapshots import (
    TIERS,
    at,
    attempt,
    drain,
    job,
    node,
    nodes,
    pod,
    snapshot,
    status,
    tier,
)
from tests.support.decisions.tier_views import NOWHERE, known, measured, seen, training

from holdfast.api.attempt import AttemptState
from holdfast.core.capacity.outlook import look_ahead
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.room import Held, Room

HOUR = 3600.0


# If a tier is up

STANDING = nodes()  # four nodes of tier spot, ready for 9,000 s
UP, LOST, REFUSED = (seen(state, -500, -100) for state in ("Up", "TookBack", "Refused"))


@pytest.mark.parametrize(
    ("spot", "cluster", "found"),
    [
        ({}, NOWHERE, (None, None)),
        (UP, NOWHERE, (True, 500)),
        (LOST, NOWHERE, (None, None)),  # there may be another one
        (REFUSED, NOWHERE, (False, 500)),
        (seen("Up", -5000, -901), NOWHERE, (None, None)),  # no observation for over 15 minutes
        (seen("Up", 60, 60), NOWHERE, (None, None)),  # the clock jumped back
        # Nodes stand there
        ({}, STANDING, (True, 9000)),
        (UP, STANDING, (True, 500)),
        (LOST, STANDING, (True, 100)),  # others still stand
        (REFUSED, STANDING, (False, 500)),  # they have no room
        (REFUSED, nodes(node("n5", ready_changed_at=at(-99))), (False, 500)),
        (REFUSED, ClusterView([node("n5", ready_changed_at=at(-99))]), (True, 99)),
        (seen("Refused", -5000, -901), STANDING, (True, 9000)),
    ],
)
def test_what_was_seen_of_a_tier(spot, cluster, found):
    one = tier_view("spot", status(tiers=(known(**spot),)), cluster)
    assert (one.available, one.spell_age) == found


@pytest.mark.parametrize(
    ("observation", "spot", "cluster", "found"),
    [
        ("Free", {}, NOWHERE, (False, None)),
        ("Free", LOST, NOWHERE, (False, 500)),
        ("Free", UP, NOWHERE, (False, None)),
        ("Billed", {}, STANDING, (None, None)),
        ("Billed", LOST, STANDING, (None, None)),
        ("Billed", REFUSED, STANDING, (False, 500)),
    ],
)
def test_a_tier_may_say_how_it_is_observed(observation, spot, cluster, found):
    tiers = ({**TIERS[0], "observation": observation}, *TIERS[1:])
    one = tier_view("spot", status(tiers=(known(**spot),)), cluster, tiers=tiers)
    assert (one.available, one.spell_age) == found


SMALL = {"allocatable": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"}}
TOO_SMALL = ClusterView([node(**SMALL), node("n2", **SMALL)])
MIXED = ClusterView([node(**SMALL), node("n2", unschedulable=True)])  # n2 is large enough, and may come back


# Breaks if the policies see a node that cannot take the pod: a job leaves a good node for it, and waits.
@pytest.mark.parametrize(
    ("observation", "spot", "cluster", "found"),
    [
        (None, {}, TOO_SMALL, (False, None)),
        (None, UP, TOO_SMALL, (False, None)),
        (None, REFUSED, TOO_SMALL, (False, 500)),
        (None, {}, MIXED, (None, None)),
        ("Free", {}, TOO_SMALL, (False, None)),
        ("Free", {}, MIXED, (False, None)),
        ("Billed", {}, TOO_SMALL, (None, None)),
        ("Billed", UP, TOO_SMALL, (True, 500)),
    ],
)
def test_nodes_that_are_too_small_do_not_show_that_a_tier_is_up(observation, spot, cluster, found):
    own = known(**spot, **({"observation": observation} if observation else {}))
    one = tier_view("spot", status(tiers=(own,)), cluster)
    assert (one.available, one.spell_age) == found


# Breaks if a node that is full of another job's pod counts as one for this job, or the job's own node does not.
@pytest.mark.parametrize(
    ("observation", "owner", "found"), [("Free", "other", False), (None, "other", None), ("Free", "own", True)]
)
def test_a_node_that_is_full_can_take_no_pod_but_of_its_own_job(observation, owner, found):
    cluster, held = ClusterView([node()]), Held()
    held.add("n1", {"cpu": "1"})
    tiers = [{**TIERS[0], "observation": observation}] if observation else [TIERS[0]]
    given = job(status(), capacity={"tiers": tiers})
    made = snapshot(given, *([pod(5)] if owner == "own" else []), cluster=cluster, others=Room(cluster, held))
    (one,) = look_ahead(made, made.job.status, made.grid).view.tiers
    assert one.available is found


def test_a_tier_that_the_job_is_on_is_up():
    assert tier_view("spot", status(training())).spell_age == 590
    assert tier_view("spot", status(training(), tiers=(known(**seen("Up", -2000, -590)),))).spell_age == 2000


def test_that_others_were_refused_takes_no_node_away():
    refused = [known(**seen("Refused", -100, -10))]
    assert tier_view("spot", status(training()), shared=refused).spell_age == 590
    assert (
        tier_view("spot", status(training(), tiers=(known(**seen("Refused", 1, 9)),))).spell_age == 590
    )  # a clock jumped
    assert tier_view("spot", status(), shared=refused).available is False


def test_a_notice_ends_a_spell():
    one = tier_view("spot", status(training(state=AttemptState.DRAINING, drain=drain())))
    assert (one.available, one.spell_age) == (None, None)
    waits = attempt(2, AttemptState.ACQUIRING, created_at=at(-90))
    one = tier_view("spot", status(training(state=AttemptState.DRAINING, drain=drain(at=at(-95))), successor=waits))
    assert (one.available, one.spell_age) == (False, 95)  # out since then, as is known now


def test_a_pod_that_waits_shows_that_spot_is_out_but_not_that_dedicated_is():
    for field in ("current", "successor"):
        waits = {name: attempt(2, AttemptState.ACQUIRING, tier=tier(name), created_at=at(-90)) for name in PRICED}
        found = {name: tier_view(name, status(**{field: one})).available for name, one in waits.items()}
        assert found == {"spot": False, "dedicated": None, "cpu": None}


def test_a_dedicated_node_is_out_once_it_did_not_come_in_its_time():
    def asked(until):
        waits = attempt(
            state=AttemptState.ACQUIRING, tier=tier("dedicated"), created_at=at(-300), acquire_deadline=at(until)
        )
        return tier_view("dedicated", status(waits)).available

    assert (asked(1), asked(0)) == (None, False)


def test_a_pod_may_wait_as_long_as_pods_usually_do():
    waits = attempt(state=AttemptState.ACQUIRING, created_at=at(-90))
    assert tier_view("spot", status(waits, tiers=(known(acquire=measured(100)),))).available is None
    assert tier_view("spot", status(waits), shared=[known(acquire=measured(100))]).available is None
    assert tier_view("spot", status(waits), shared=[known(acquire=measured(80))]).available is False


def test_what_other_jobs_saw_counts_if_it_is_newer():
    mine = status(tiers=(known(**REFUSED),))
    assert tier_view("spot", mine, shared=[known(**seen("Up", -90, -50))]).spell_age == 90
    assert tier_view("spot", mine, shared=[known(**seen("Up", -300, -50))]).available is False  # kept, not got
    assert tier_view("spot", mine, shared=[known(**seen("Up", -300, -150))]).available is False
    assert tier_view("spot", status(), shared=[known(**seen("Up", -300, -150))]).spell_age == 300


# What a move costs


def changeover(name="dedicated", own=(), shared=None, cluster=NOWHERE, **changes):
    one = tier_view(name, status(tiers=tuple(own)), cluster, shared, **changes)
    return one.changeover, one.worst_changeover


def test_before_anything_was_measured():
    assert changeover() == (60 + 180, 900 + 900)
    assert changeover("spot", cluster=STANDING) == (60 + 180, 300 + 900)
    quick = tuple({**one, "acquireTimeout": "5s"} for one in TIERS)
    assert changeover(tiers=quick) == (5 + 180, 5 + 900)


def test_what_was_measured():
    full = known("dedicated", acquire=measured(10, 20, 30, 40, 50), start=measured(60, 70, 80, 90, 100, worst=200))
    billed = full.model_copy(update={"observation": "Billed"})
    assert changeover(own=[billed]) == (30 + 80, 50 + 200)
    stood = full.model_copy(update={"observation": "Free"})
    assert changeover(own=[stood]) == (30 + 80, 900 + 200)  # nodes stood there, and none does now
    assert changeover("spot", own=[full.model_copy(update={"tier": "spot"})], cluster=STANDING) == (110, 250)


def test_few_measurements_are_taken_with_a_margin():
    own = [known("dedicated", acquire=measured(10), start=measured(60, 80), observation="Billed")]
    assert changeover(own=own) == (10 + 80, 20 + 120)


def test_a_tier_that_was_never_used_starts_like_the_slowest_of_the_job():
    own = [known("spot", start=measured(60)), known("cpu", start=measured(90, 90, 90, 90, 90, worst=300))]
    assert changeover(own=own) == (60 + 90, 900 + 300)
    assert changeover("spot", own=own)[0] == 60 + 60


def test_durations_of_other_jobs_count_until_the_job_has_measured_its_own():
    shared = [known("dedicated", acquire=measured(10, 10, 10, 10, 70), start=measured(50), observation="Billed")]
    assert changeover(shared=shared) == (10 + 50, 70 + 900)
    own = [known("dedicated", acquire=measured(20), start=measured(90))]
    assert changeover(own=own, shared=shared) == (20 + 90, 70 + 180)


@pytest.mark.parametrize(
    ("acquire", "start", "typical", "worst"),
    [
        (measured(7e5), measured(1e6), 900 + 900, 900 + 900),  # a pod behind a gate, a program that sleeps for days
        (measured(1), measured(0), 1, 2 + 900),  # a program that does nothing plans no deadline of another
    ],
)
def test_one_tenant_changes_what_others_plan_with_only_within_bounds(acquire, start, typical, worst):
    """Breaks if a job that waits, or starts, for days makes every new job expect the same."""
    shared = [known("dedicated", acquire=acquire, start=start, observation="Billed")]
    assert changeover(shared=shared) == (typical, worst)
    own = [known("dedicated", acquire=measured(20), start=measured(90))]
    assert changeover(own=own, shared=shared)[0] == 20 + 90


def test_life():
    def life(name="spot", own=None, shared=None):
        one = tier_view(
            name, status(tiers=(known(name, **own),) if own else ()), shared=[known(name, **(shared or {}))]
        )
        return one.lifetime / HOUR

    few, many = (
        {"interruptions": 3, "node_time": timedelta(hours=10)},
        {"interruptions": 9, "node_time": timedelta(hours=48)},
    )
    assert life() == 2
    assert life("dedicated") == 720
    assert life(own=few) == life(shared=few) == 12 / 4
    assert life(own=few, shared=many) == life(own=many, shared=few) == 5
    assert life(own=few, shared=few) == life(own=few), "its own interruptions, told by its profile, are no further ones"


def test_interruptions_are_forgotten_after_a_day_without_an_observation():
    def life(hours):
        then = -hours * HOUR
        return tier_view("spot", status(tiers=(known(interruptions=9, **seen("Refused", then, then)),))).lifetime / HOUR

    assert (life(24), life(24.1)) == (0.2, 2)


# Who pays for the watch


@pytest.mark.parametrize(
    ("spot", "cluster", "paid"),
    [
        ({}, STANDING, False),
        ({}, NOWHERE, True),
        ({"observation": "Free"}, NOWHERE, False),
        ({"observation": "Billed"}, STANDING, True),
    ],
)
def test_the_watch_is_paid_for_where_nodes_come_when_asked_for(spot, cluster, paid):
    assert view(status(tiers=(known(**spot),)), cluster).paid_watch is paid
    assert view(status(), cluster, [known(**spot)]).paid_watch is paid


@pytest.mark.parametrize(("given", "seconds"), [({}, 600), ({"maxOverlap": "1h"}, 3600), ({"maxOverlap": "0s"}, inf)])
def test_for_how_long_a_node_may_be_held_is_up_to_the_user(given, seconds):
    """If two nodes at once are not allowed, no node is kept."""
    assert view(status(), **given).watch_limit == seconds


def test_the_tier_knows_best():
    tiers = ({**TIERS[0], "observation": "Free"}, *TIERS[1:])
    assert view(status(), tiers=tiers).paid_watch is False
    assert view(status(), tiers=({**TIERS[0], "observation": "Billed"}, TIERS[1]), cluster=STANDING).paid_watch is True
    assert view(status(), tiers=TIERS[1:]).paid_watch is False  # no Spot at all


def test_prices_are_those_of_the_grid():
    assert tier_view("dedicated", status()).price == Decimal("3.06")
