"""Which nodes pods of a tier may use."""

import pytest
from tests.support.decisions.snapshots import at, job, node, silent, snapshot, tier

from holdfast.api.profile import Toleration
from holdfast.core.observe.nodes import ClusterView, Taint
from holdfast.core.observe.usable_nodes import why_unusable


def since(*nodes, **changes):
    return snapshot(job(), cluster=ClusterView(nodes)).nodes_since(tier().model_copy(update=changes))


def tainted(key="sick", value="", effect="NoSchedule"):
    made = node()
    return type(made)(**{**{f: getattr(made, f) for f in made.__slots__}, "taints": (Taint(key, value, effect),)})


def tolerating(**fields):
    return {"tolerations": (Toleration(**fields),)}


def test_the_oldest_usable_node_counts():
    assert since(node(), node("n2", ready_changed_at=at(-99_000))) == at(-99_000)
    assert since(node(created_at=at(-60))) == at(-60)  # a new node under an old name
    assert since() is None


@pytest.mark.parametrize(
    "gone",
    [
        node(labels={"tier": "dedicated"}),
        silent(),
        node(unschedulable=True),
        node(maintenance="soon"),
        node(deleted_at=at(60)),
        node(termination_at=at(600)),
        tainted(),
    ],
)
def test_an_unusable_node_does_not_count(gone):
    assert since(gone) is None


@pytest.mark.parametrize(
    ("taint", "tolerations", "usable"),
    [
        (tainted(), tolerating(key="sick", operator="Exists"), True),
        (tainted(), tolerating(operator="Exists"), True),
        (tainted(), tolerating(key="sick"), True),  # Equal to no value
        (tainted(value="x"), tolerating(key="sick"), False),
        (tainted(value="x"), tolerating(key="sick", value="x"), True),
        (tainted(value="x"), tolerating(key="sick", value="y"), False),
        (tainted(), tolerating(key="sick", operator="Exists", effect="NoExecute"), False),
        (tainted(), tolerating(key="other", operator="Exists"), False),
        (tainted(effect="PreferNoSchedule"), {}, True),
        (tainted("aws-node-termination-handler/spot-itn"), tolerating(operator="Exists"), False),  # it is about to go
    ],
)
def test_taints(taint, tolerations, usable):
    assert (since(taint, **tolerations) is not None) == usable


def test_nodes_are_looked_through_once():
    cluster = ClusterView([node()])
    found = snapshot(job(), cluster=cluster)
    assert found.nodes_since(tier()) == found.nodes_since(tier()) == at(-9000)
    assert found.nodes_since(tier("dedicated")) is None
    assert cluster.once("key", lambda: 1) == cluster.once("key", lambda: 2) == 1


def test_a_broken_node_is_not_usable():
    assert why_unusable(node(fault="GpuHealthy=False"), tier().tolerations) == "broken: GpuHealthy=False"
