"""Which nodes a tier can use."""

from typing import Any

import pytest

from holdfast.api.profile import Tier, Toleration
from holdfast.api.trainer import Resources, Trainer
from holdfast_cli.check.node_fit import Fit, fit

TIER = Tier(name="spot", kind="Spot", accelerator="nvidia.com/gpu", node_selector={"tier": "spot"})
TRAINER = Trainer(image="x", accelerators_per_node=2, resources=Resources(cpu="4", memory="8Gi"))


def node(
    gpus: int = 2, cpu: str = "8", taints: tuple[dict[str, str], ...] = (), ready: str = "True", **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "uid": "u1", "labels": {"tier": "spot", "other": "x"}},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


TAINT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}


def test_a_node_with_labels_and_room_fits() -> None:
    assert fit(TIER, TRAINER, [node(), {"metadata": {}}]) == Fit(1, 1, ())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (node(gpus=1), "nvidia.com/gpu 1 is less than 2"),
        (node(cpu="3999m"), "cpu 3999m is less than 4"),
        (node(unschedulable=True), "cordoned"),
        (node(taints=(TAINT,)), "taint spot is not tolerated"),
        (node(ready="False"), "not ready"),
    ],
)
def test_what_is_wrong_with_a_node_is_said(bad: dict[str, Any], reason: str) -> None:
    found = fit(TIER, TRAINER, [bad, bad])
    assert (found.labelled, found.usable, found.reasons) == (2, 0, (reason,))


@pytest.mark.parametrize(
    ("toleration", "usable"),
    [
        (Toleration(key="spot", operator="Exists"), 1),
        (Toleration(key="spot", value="yes"), 1),
        (Toleration(key="spot", value="no"), 0),
        (Toleration(key="spot", operator="Exists", effect="NoExecute"), 0),
        (Toleration(operator="Exists"), 1),
        (Toleration(key="other", operator="Exists"), 0),
    ],
)
def test_tolerations_count_as_the_scheduler_counts_them(toleration: Toleration, usable: int) -> None:
    tier = TIER.model_copy(update={"tolerations": (toleration,)})
    assert fit(tier, TRAINER, [node(taints=(TAINT,))]).usable == usable


def test_soft_taints_do_not_count() -> None:
    assert fit(TIER, TRAINER, [node(taints=({**TAINT, "effect": "PreferNoSchedule"},))]).usable == 1
