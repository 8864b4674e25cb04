"""Which nodes new pods avoid: broken ones, and those on which attempts ended for a reason of the node."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.histories import record
from tests.support.decisions.snapshots import (
    NOW,
    at,
    job,
    node,
    nodes,
    profile,
    settled,
    snapshot,
    status,
    tier,
    verdict,
)
from tests.support.decisions.snapshots import attempt as attempt_now
from tests.support.decisions.snapshots import ended as ended_pod
from tests.support.decisions.tier_views import known

from holdfast.api.knowledge import MAX_FAULTY
from holdfast.api.names import ANNOTATION_FORGIVEN
from holdfast.api.profile import CapacityProfileStatus
from holdfast.api.scalars import format_time
from holdfast.core.capacity import bad_nodes
from holdfast.core.capacity.bad_nodes import AVOIDED, EXPIRE, forgive, forgiven_nodes, of_profile, suspects, to_avoid
from holdfast.core.decide import decide
from holdfast.core.decision import CreatePod
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.room import Held, Room

SPOT = tier()


def ended(number, node_name="n1", reason="NodeSilent", seconds=-60, **changes):
    """An attempt that ended on a node."""
    return record(number=number, node=node_name, reason=reason, ended_at=at(seconds), **changes)


def a_job(*records, namespace="vision", uid="u-job", **changes):
    return job(status(history=records, attempt=9), meta={"namespace": namespace, "uid": uid}, **changes)


def told(*jobs, cluster=None, before=None, forgiven="{}"):
    """A profile that has heard of these jobs."""
    found = profile().model_copy(update={"status": before or CapacityProfileStatus()})
    found.metadata.annotations[ANNOTATION_FORGIVEN] = forgiven
    heard = of_profile(found, jobs, cluster or nodes(), NOW)
    return found.model_copy(update={"status": CapacityProfileStatus(faulty_nodes=heard)})


def seen(given_job, **changes):
    return snapshot(given_job, **changes)


def test_one_fault_makes_a_node_the_last_choice_and_two_keep_pods_away():
    one, two = a_job(ended(1)), a_job(ended(1), ended(2))
    assert suspects(seen(one)) == {"n1": 1}
    assert to_avoid(seen(one), SPOT) == ()
    assert to_avoid(seen(two), SPOT) == ("n1",)


@pytest.mark.parametrize(
    "attempt",
    [
        ended(1, reason="SpotInterruption"),
        ended(1, reason="ExitCode"),
        ended(1, None),
        ended(1, seconds=-EXPIRE.total_seconds()),
        ended(1, "gone"),
    ],
    ids=["announced", "of the program", "without a node", "too old", "of a node that is gone"],
)
def test_what_says_nothing_about_a_node(attempt):
    assert suspects(seen(a_job(attempt))) == {}


def test_a_new_machine_under_an_old_name_is_innocent():
    changed = nodes(node("n1", created_at=at(-30)))
    assert suspects(seen(a_job(ended(1), ended(2)), cluster=changed)) == {}


def test_a_broken_node_is_avoided_even_if_it_is_the_only_one():
    broken = nodes(node("n1", fault="AcceleratedHardwareReady=False"), without=("n2", "n3", "n4"))
    assert to_avoid(seen(a_job(), cluster=broken), SPOT) == ("n1",)


@pytest.mark.parametrize(
    ("bad", "without", "asked", "avoided"),
    [
        (("n1",), (), 3, ("n1",)),
        (("n1",), (), 4, ()),
        (("n1", "n2"), (), 1, ("n1", "n2")),
        (("n1", "n2", "n3"), (), 1, ()),
        (("n1",), ("n2", "n3", "n4"), 1, ()),
    ],
    ids=["enough are left", "the job needs all", "half", "most", "all"],
)
def test_suspects_are_used_if_too_few_nodes_are_left(bad, without, asked, avoided):
    records = [ended(2 * i + k, name) for i, name in enumerate(bad, 1) for k in (0, 1)]
    trainer = {"image": "x", "command": ["x"], "nodes": asked}
    assert to_avoid(seen(a_job(*records, trainer=trainer), cluster=nodes(without=without)), SPOT) == avoided


SMALL = {"allocatable": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"}}
BILLED = CapacityProfileStatus(tiers=(known(observation="Billed"),))


# Breaks if pods wait for nodes that are too small or full while a node with faults could take them, or if they take
# that one where others are only full and an autoscaler brings another.
@pytest.mark.parametrize(
    ("others", "full", "billed", "avoided"),
    [
        ({}, (), False, ("n1",)),
        (SMALL, (), False, ()),
        ({}, ("n2", "n3", "n4"), False, ()),
        ({}, ("n2", "n3"), False, ("n1",)),
        ({}, ("n2", "n3", "n4"), True, ("n1",)),
        (SMALL, (), True, ()),
    ],
)
def test_only_nodes_that_can_take_a_pod_are_left(others, full, billed, avoided):
    cluster, held = nodes(*(node(name, **others) for name in ("n2", "n3", "n4"))), Held()
    for name in full:
        held.add(name, {"cpu": "1"})
    told_of = profile().model_copy(update={"status": BILLED}) if billed else None
    found = seen(a_job(ended(1), ended(2)), cluster=cluster, others=Room(cluster, held), profile=told_of)
    assert to_avoid(found, SPOT) == avoided


def test_what_one_namespace_says_of_its_programs_counts_only_there():
    """Breaks if a tenant whose programs kill their container can keep other tenants from nodes."""
    crashed = [a_job(ended(1, reason="ContainerLost"), ended(2, reason="ContainerLost"), uid=f"u-{i}") for i in (1, 2)]
    shared = told(*crashed)
    assert suspects(seen(a_job(), profile=shared)) == {"n1": AVOIDED}
    elsewhere = a_job(namespace="language")
    assert suspects(seen(elsewhere, profile=shared)) == {}
    both = told(*crashed, a_job(ended(1, reason="ContainerLost"), namespace="language", uid="u-l"))
    assert suspects(seen(a_job(namespace="speech"), profile=both))["n1"] >= AVOIDED


# Breaks if a tenant keeps all others from a node with programs that claim what only the cluster can know.
@pytest.mark.parametrize("reason", ["NodeSilent", "NodeFaulty", "ContainerLost", "SlowRank"])
@pytest.mark.parametrize("outcome", ["failed", "drained"])
def test_a_verdict_cannot_speak_for_the_cluster(outcome, reason):
    claimed = ended_pod(1, 1, verdict(outcome, reason))
    over = settled(snapshot(job(status(attempt_now()), meta={"namespace": "vision"}), claimed)).status
    assert over.history[-1].node == "n1"
    assert over.history[-1].reason == "Unknown"
    mine = job(over, meta={"namespace": "vision"})
    assert suspects(seen(a_job(namespace="language"), profile=told(mine))) == {}


def test_no_namespace_pushes_out_what_the_cluster_says():
    """Breaks if a tenant can hide a silent node from other tenants with claims of its own, which are newer."""
    silent = a_job(ended(1), ended(2), namespace="language", uid="u-silent")
    claims = a_job(*(ended(number, reason="SlowRank", seconds=-1) for number in range(1, 9)), uid="u-claims")
    assert suspects(seen(a_job(namespace="speech"), profile=told(silent, claims))) == {"n1": 2}
    later = told(claims, before=told(silent).status)
    assert suspects(seen(a_job(namespace="speech"), profile=later)) == {"n1": 2}


def test_no_namespace_pushes_out_the_nodes_of_others():
    """Breaks if claims of one tenant of many nodes leave no room for a silent node, or for another tenant's node."""
    cluster = nodes(*(node(f"m{number}") for number in range(40)))
    silent = a_job(ended(1, "n1", seconds=-900), namespace="language", uid="u-silent")
    crashed = a_job(ended(1, "n2", "ContainerLost", seconds=-900), namespace="speech", uid="u-crashed")
    claims = [
        a_job(*(ended(n + 1, f"m{n}", "SlowRank", seconds=-1) for n in range(first, first + 20)), uid=f"u-{first}")
        for first in (0, 20)
    ]
    found = told(*claims, crashed, silent, cluster=cluster).status.faulty_nodes
    assert len(found) == MAX_FAULTY
    assert {"n1", "n2"} <= {one.node for one in found}


@pytest.mark.parametrize(
    ("claims", "counts"),
    [
        ([ended(1, reason="SlowRank"), ended(2, reason="SlowRank")], 1),
        ([ended(1, reason="Stalled"), ended(2, reason="Stalled")], 1),
        ([ended(1, reason="ContainerLost"), ended(2, reason="ContainerLost")], 2),
    ],
    ids=["of itself", "for another reason", "for the same reason"],
)
def test_another_namespace_counts_at_most_once_and_for_the_same_reason(claims, counts):
    """Breaks if one tenant alone makes a node avoided on which another tenant failed once."""
    mine, theirs = a_job(ended(1, reason="ContainerLost")), a_job(*claims, namespace="language", uid="u-theirs")
    shared = told(mine, theirs)
    assert suspects(seen(mine, profile=shared)) == {"n1": counts}
    assert suspects(seen(a_job(namespace="speech"), profile=shared)).get("n1", 0) == (2 if counts == 2 else 0)


def test_what_the_cluster_says_counts_for_all():
    assert suspects(seen(a_job(namespace="language"), profile=told(a_job(ended(1))))) == {"n1": 1}


@pytest.mark.parametrize(
    ("attempt", "counts"),
    [
        (ended(1, reason="Stalled"), 1),
        (ended(1, reason="Stalled", rank=2), 0),
        (ended(1, reason="Stalled", rank=2, node_at_fault=True), 1),
        (ended(1, reason="SlowRank", rank=2), 1),
        (ended(1, reason="NodeFaulty", rank=2), 1),
    ],
    ids=["one node", "any of several", "the node at fault", "slow", "hardware"],
)
def test_what_counts_against_a_node(attempt, counts):
    """Breaks if a hang of several nodes is put down to the node that told it first."""
    assert suspects(seen(a_job(attempt))).get("n1", 0) == counts


def test_broken_hardware_counts_for_all_after_its_condition_is_gone():
    """Breaks if a node whose accelerator falls off the bus every hour looks new after each restart."""
    broken = a_job(ended(1, reason="NodeFaulty"), ended(2, reason="NodeFaulty"))
    assert suspects(seen(a_job(namespace="language"), profile=told(broken))) == {"n1": 2}


def test_the_profile_remembers_what_a_deleted_job_said():
    heard = told(a_job(ended(1), ended(2)))
    later = told(before=heard.status)
    assert later.status.faulty_nodes == heard.status.faulty_nodes
    assert to_avoid(seen(a_job(uid="u-other"), profile=later), SPOT) == ("n1",)


def test_a_job_that_told_the_profile_counts_once():
    mine = a_job(ended(1))
    assert suspects(seen(mine, profile=told(mine))) == {"n1": 1}


def test_a_forgiven_node_begins_anew():
    mine = a_job(ended(1), ended(2), ended(3, seconds=-5))
    words = forgive(profile(), "n1", at(-30))
    assert suspects(seen(mine, profile=told(mine, forgiven=words))) == {"n1": 1}


def test_a_status_that_was_not_written_since_tells_nothing_old():
    """Breaks if holdfast nodes shows a node that was just forgiven, or whose faults are over."""
    shared = told(a_job(ended(1), ended(2, "n2"), ended(3, "n3", seconds=60 - EXPIRE.total_seconds())))
    shared.metadata.annotations[ANNOTATION_FORGIVEN] = forgive(shared, "n1", at(-30))
    assert [one.node for one in bad_nodes.as_of(shared, at(0)).status.faulty_nodes] == ["n2", "n3"]
    assert [one.node for one in bad_nodes.as_of(shared, at(60)).status.faulty_nodes] == ["n2"]


@pytest.mark.parametrize("words", ["", "[]", "{", '{"n1": 3}', '{"n1": "yesterday"}'])
def test_an_annotation_that_cannot_be_read_forgives_nothing(words):
    assert suspects(seen(a_job(ended(1)), profile=told(a_job(ended(1)), forgiven=words))) == {"n1": 1}


def test_the_annotation_stays_small():
    given_profile = profile()
    for number in range(100):
        given_profile.metadata.annotations[ANNOTATION_FORGIVEN] = forgive(given_profile, f"m{number}", at(-number))
    kept = forgiven_nodes(given_profile)
    assert len(kept) == 64
    assert kept["m99"] == at(-99)
    old = {"m1": format_time(NOW - EXPIRE)}
    given_profile.metadata.annotations[ANNOTATION_FORGIVEN] = str(old).replace("'", '"')
    assert list(forgiven_nodes(given_profile)) == ["m1"]
    assert "m1" not in forgive(given_profile, "n1", NOW)


FAULTS = st.lists(
    st.tuples(
        st.integers(1, 20),
        st.sampled_from(["n1", "n2", "n3", "n4"]),
        st.sampled_from(["NodeSilent", "ContainerLost", "ExitCode"]),
        st.integers(-100_000, 0),
    ),
    max_size=8,
    unique_by=lambda one: one[0],
)
JOBS = st.lists(st.tuples(st.sampled_from(["vision", "language"]), FAULTS), max_size=4)


def _jobs(drawn):
    return [
        a_job(*(ended(*one) for one in faults), namespace=where, uid=f"u-{i}")
        for i, (where, faults) in enumerate(drawn)
    ]


@given(JOBS)
def test_the_same_news_again_changes_nothing_and_the_order_does_not_matter(drawn):
    jobs = _jobs(drawn)
    once = told(*jobs)
    assert told(*jobs, before=once.status).status.faulty_nodes == once.status.faulty_nodes
    assert told(*reversed(jobs)).status.faulty_nodes == once.status.faulty_nodes


@given(JOBS, st.integers(1, 4), st.sets(st.sampled_from(["n2", "n3", "n4"])))
def test_a_tier_always_keeps_enough_nodes(drawn, asked, without):
    """Breaks if faults alone can empty a tier, or leave a job fewer nodes than it needs."""
    trainer = {"image": "x", "command": ["x"], "nodes": asked}
    cluster: ClusterView = nodes(without=tuple(without))
    found = seen(a_job(trainer=trainer), profile=told(*_jobs(drawn), cluster=cluster), cluster=cluster)
    avoided = set(to_avoid(found, SPOT))
    if avoided:
        assert len(cluster.nodes.keys() - avoided) >= max(asked, len(cluster.nodes) / 2)


def test_a_new_attempt_avoids_bad_nodes_and_prefers_nodes_without_a_fault():
    mine = a_job(ended(1, "n1"), ended(2, "n1"), ended(3, "n2"))
    first = decide(snapshot(mine))
    assert first.status.current.avoid_nodes == ("n1",)
    (made,) = [action for action in first.actions if isinstance(action, CreatePod)] or [
        action
        for action in decide(snapshot(mine.model_copy(update={"status": first.status}))).actions
        if isinstance(action, CreatePod)
    ]
    rules = made.manifest["spec"]["affinity"]["nodeAffinity"]
    required = rules["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["values"] for one in required[0]["matchFields"]] == [["n1"]]
    preferred = rules["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [one["preference"]["matchFields"][0]["values"] for one in preferred] == [["n2"]]


def test_faults_expire():
    mine = a_job(ended(1), ended(2))
    later = seen(mine, now=NOW + timedelta(hours=24))
    assert bad_nodes.suspects(later) == {}


# Breaks if a node on which a training hung twice gets it a third time, or if a node of several is blamed for another.
def test_a_node_on_which_trainings_hang_is_avoided():
    alone = a_job(ended(1, reason="Stalled"), ended(2, reason="Stalled"))
    assert to_avoid(seen(alone), SPOT) == ("n1",)
    several = a_job(ended(1, reason="Stalled", rank=1), ended(2, reason="Stalled", rank=1))
    assert to_avoid(seen(several), SPOT) == ()
