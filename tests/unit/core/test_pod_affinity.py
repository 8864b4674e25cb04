"""The nodes that a pod must not use, those that it uses last, and the distance of a training's pods."""

import pytest
from tests.support.decisions.snapshots import attempt, job

from holdfast.core.pod_affinity import pod_affinity


def values(terms):
    return [one["values"] for term in terms for one in term["matchFields"]]


@pytest.mark.parametrize(("nodes", "parts"), [(1, set()), (2, {"podAntiAffinity"})])
def test_a_pod_that_may_use_any_node(nodes, parts):
    assert pod_affinity(job(), attempt(nodes=nodes), ()).keys() == parts


def test_nodes_that_are_avoided_and_nodes_that_are_used_last():
    """Breaks if a pod may use a node that it must avoid, or if a suspect keeps a pod waiting."""
    rules = pod_affinity(job(), attempt(avoid_nodes=("n1", "n2")), ("n3", "n4"))["nodeAffinity"]
    required = rules["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert len(required) == 1  # terms are alternatives
    assert values(required) == [["n1"], ["n2"]]
    preferred = rules["preferredDuringSchedulingIgnoredDuringExecution"]
    assert values(one["preference"] for one in preferred) == [["n3"], ["n4"]]
