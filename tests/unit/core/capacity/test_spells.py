"""Spells: how old they are, and which of two observations counts."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import NOW, at, attempt, drain, stopped, tier
from tests.support.decisions.tier_views import known, measured, seen

from holdfast.api.attempt import AttemptState, Departure
from holdfast.api.knowledge import NamespaceRefusal, Seen, ShapeKnowledge
from holdfast.core.capacity.spells import (
    FRESH,
    Spell,
    extend_spell,
    interruption_known_at,
    own_spell,
    patience,
    prevailing_spell,
    shared_spell,
    stored_spell,
    with_attempt,
)
from holdfast.core.observe.digest import digest

UP, LOST, REFUSED = Seen.UP, Seen.TOOK_BACK, Seen.REFUSED
MINUTE = timedelta(minutes=1)


def spell(state, since, seen_at):
    return Spell(state, at(since), at(seen_at))


def test_what_status_remembers():
    assert stored_spell(known(**seen("TookBack", -60, -30))) == spell(LOST, -60, -30)
    assert stored_spell(known()) is None
    assert stored_spell(None) is None


# Breaks if an edit of acceleratorsPerNode makes what smaller or larger pods saw count for those of now.
@pytest.mark.parametrize(
    ("state", "before", "now", "tells"),
    [
        ("Up", 1, 1, True), ("Up", 1, 8, False), ("Up", 8, 1, True), ("Up", None, 8, True), ("Up", 1, None, True),
        ("Refused", 1, 8, True), ("Refused", 8, 1, False), ("TookBack", 1, 8, True), ("Unfit", 8, 1, False),
        ("Unfit", 1, 8, False), ("Unfit", 8, 8, True),
    ],
)  # fmt: skip
def test_what_a_job_saw_before_an_edit(state, before, now, tells):
    stored = known(**seen(state, -60, -30), accelerators=before)
    assert own_spell(stored, now) == (spell(Seen(state), -60, -30) if tells else None)


@pytest.mark.parametrize(
    ("before", "state", "begun", "seen_at", "after"),
    [
        (None, UP, -60, -30, spell(UP, -60, -30)),
        (spell(UP, -900, -100), UP, -60, -30, spell(UP, -900, -30)),
        (spell(UP, -900, -100), LOST, -30, -30, spell(LOST, -30, -30)),
        (spell(LOST, -900, -100), REFUSED, -60, -30, spell(REFUSED, -900, -30)),  # both are out
        (spell(REFUSED, -900, -100), UP, -60, -30, spell(UP, -60, -30)),
        (spell(UP, -9000, -961), UP, -60, -30, spell(UP, -60, -30)),  # no observation for over 15 minutes
        (spell(UP, -9000, -960), UP, -60, -30, spell(UP, -9000, -30)),
        (spell(UP, -900, -20), LOST, -60, -30, spell(UP, -900, -20)),  # older news
        (None, UP, -30, -60, spell(UP, -60, -60)),  # a clock that jumped back
    ],
)
def test_a_spell_is_as_old_as_the_watch_on_it(before, state, begun, seen_at, after):
    assert extend_spell(before, state, at(begun), at(seen_at)) == after


@given(
    st.lists(st.tuples(st.sampled_from(Seen), st.integers(-9000, 0), st.integers(0, 4000)), max_size=6),
)
def test_to_see_the_same_again_changes_nothing(events):
    found = None
    for state, begun, lasted in events:
        found = extend_spell(found, state, at(begun), at(begun + lasted))
        assert extend_spell(found, state, at(begun), at(begun + lasted)) == found
        assert found.since <= found.seen_at


@pytest.mark.parametrize(
    ("given_attempt", "after"),
    [
        (attempt(), spell(UP, -590, 0)),
        (attempt(drain=drain(), state=AttemptState.DRAINING), spell(LOST, -2, -2)),
        (attempt(drain=stopped(), state=AttemptState.DRAINING), spell(UP, -590, 0)),
        (attempt(state=AttemptState.ACQUIRING, created_at=at(-60)), spell(REFUSED, -60, 0)),
        (attempt(state=AttemptState.ACQUIRING, created_at=at(-59)), None),
        (attempt(state=AttemptState.INTENDED), None),
    ],
)
def test_what_an_attempt_shows(given_attempt, after):
    assert with_attempt(None, given_attempt, MINUTE, NOW) == after


@pytest.mark.parametrize("reason", ["PodDeleted", "EvictionByEvictionAPI", "SavedAndLeft"])
def test_an_end_that_a_tenant_can_ask_for_says_nothing_about_the_tier(reason):
    assert interruption_known_at(attempt(state=AttemptState.DRAINING, drain=drain(reason=reason))) is None


def test_a_notice_of_the_cluster_says_that_the_tier_takes_the_node():
    assert interruption_known_at(attempt(state=AttemptState.DRAINING, drain=drain())) == at(-2)
    assert interruption_known_at(attempt()) is None


def test_a_node_that_will_go_counts_as_taken_back_as_soon_as_that_is_known():
    departs = Departure(reason="SpotInterruption", at=at(-10), deadline=at(90), leave_at=at(80))
    assert interruption_known_at(attempt(departure=departs)) == at(-10)
    assert interruption_known_at(attempt(departure=departs.model_copy(update={"reason": "PodDeleted"}))) is None


@pytest.mark.parametrize(
    ("spells", "believed"),
    [
        ((spell(UP, -900, -60), spell(LOST, -300, -30)), 1),
        ((spell(UP, -900, -30), spell(LOST, -300, -60)), 0),
        ((spell(UP, -900, -30), spell(REFUSED, -300, -60)), 1),  # to keep a node is not to get one
        ((spell(LOST, -30, -30), spell(REFUSED, -300, -60)), 1),
        ((spell(REFUSED, -900, -30), spell(REFUSED, -300, -60)), 0),
        ((spell(UP, -50, -30), spell(REFUSED, -300, -60)), 0),  # a node was granted since
        ((spell(UP, -9000, -30), spell(REFUSED, -3000, -931)), 0),  # too long ago
        ((spell(UP, -9000, -30), spell(REFUSED, -3000, -930)), 1),
    ],
)
def test_the_observation_that_prevails(spells, believed):
    assert prevailing_spell(spells) == prevailing_spell(spells[::-1]) == spells[believed]


UNFIT = Seen.UNFIT


@pytest.mark.parametrize(
    ("others", "believed"),
    [
        ((spell(UP, -50, -30),), UNFIT),  # that others get nodes does not help a pod that fits on none
        ((spell(REFUSED, -50, -30),), UNFIT),
        ((spell(UP, -50, 871),), UP),  # it is 15 minutes ago
    ],
)
def test_a_job_whose_own_pod_does_not_fit_keeps_its_own_observation(others, believed):
    assert prevailing_spell((spell(UNFIT, -300, -30), *others)).state is believed


def shapes(*several):
    return known(shapes=[ShapeKnowledge(accelerators=n, **seen(state, -90, -50 + n)) for n, state in several])


@pytest.mark.parametrize(
    ("given_shapes", "accelerators", "told"),
    [
        (((8, "Refused"),), 1, None),  # a node with room for 8 is not there, one with room for 1 may be
        (((8, "Refused"),), 8, REFUSED),
        (((1, "Refused"),), 8, REFUSED),
        (((1, "Up"),), 8, None),
        (((8, "Up"),), 1, UP),
        (((8, "TookBack"),), 1, LOST),
        (((1, "Up"), (8, "Refused")), 1, UP),
        (((1, "Up"), (8, "Refused")), 4, None),
    ],
)
def test_a_job_reads_from_the_profile_what_pods_of_its_shape_observed(given_shapes, accelerators, told):
    found = shared_spell(shapes(*given_shapes), accelerators, "vision")
    assert (found.state if found else None) is told


def refusal(namespace, accelerators=1, seen_at=-5):
    return NamespaceRefusal(namespace=digest(namespace), accelerators=accelerators, since=at(-90), seen_at=at(seen_at))


@pytest.mark.parametrize(
    ("refusals", "told"),
    [
        ((refusal("vision"),), REFUSED),
        ((refusal("language"),), UP),
        ((refusal("language"), refusal("vision")), REFUSED),
        ((refusal("vision", 8),), UP),
        ((refusal("vision", seen_at=-901),), UP),  # it is too old
    ],
)
def test_refusals_of_one_namespace_count_only_for_its_own_jobs(refusals, told):
    has_nodes = shapes((1, "Up")).shapes
    assert shared_spell(known(shapes=has_nodes, refusals=refusals), 1, "vision").state is told


def test_the_state_that_people_read_is_not_used_by_jobs_of_other_namespaces():
    out = known(refusals=(refusal("language"),), **seen("Refused", -90, -5))
    assert shared_spell(out, 1, "language").state is REFUSED
    assert shared_spell(out, 1, "vision") is None


def test_no_observation_gives_no_spell():
    assert prevailing_spell(()) is None


def test_fresh_is_longer_than_the_time_between_probes():
    assert timedelta(minutes=10) < FRESH <= timedelta(minutes=20)


@pytest.mark.parametrize(
    ("acquired", "timeout", "waits"),
    [
        (None, None, 60),
        ((300.0,), None, 300),  # nodes are made while pods wait
        ((2.0,), None, 60),
        (None, 4, 4),  # the user's word
        ((300.0,), 240, 240),
        (None, 7200, 60),
    ],
)
def test_how_long_a_pod_waits_until_its_tier_is_called_out(acquired, timeout, waits):
    asked = tier().model_copy(update={"acquire_timeout": timedelta(seconds=timeout) if timeout else None})
    had = known(acquire=measured(*acquired)) if acquired else None
    assert patience(asked, had, MINUTE) == timedelta(seconds=waits)
