"""What keeps a pod from starting, as its container statuses say it."""

import pytest
from tests.support.decisions.snapshots import container, placed, pod

from holdfast.core.observe.start_trouble import find_start_trouble, is_ours


def waiting(name="trainer", reason="ImagePullBackOff", message="no"):
    return container(name=name, waiting=reason, message=message)


def test_only_the_init_container_and_the_trainer_are_of_holdfast():
    assert is_ours(container())
    assert is_ours(container(name="holdfast-init"))
    assert not is_ours(container(name="istio-proxy"))


@pytest.mark.parametrize("reason", ["PodInitializing", "ContainerCreating"])
def test_a_container_that_waits_for_an_init_container_is_not_in_trouble(reason):
    assert find_start_trouble(placed(trainer=waiting(reason=reason))) is None


def test_a_pod_that_runs_has_no_trouble():
    assert find_start_trouble(pod()) is None


def test_the_first_container_in_trouble_is_named():
    found = find_start_trouble(placed(init=(waiting("holdfast-init"),), trainer=waiting(reason="PodInitializing")))
    assert (found.reason, found.message) == ("ImagePullBackOff", "container holdfast-init cannot start: no")


def test_a_container_that_was_injected_is_said_to_be_so():
    found = find_start_trouble(placed(init=(waiting("istio-proxy", "CrashLoopBackOff", "again"),)))
    assert found.reason == "CrashLoopBackOff"
    assert found.message == "container istio-proxy, which Holdfast did not add, cannot start: again"


def test_two_reasons_that_a_kubelet_alternates_between_are_one():
    assert find_start_trouble(placed(trainer=waiting(reason="ErrImagePull"))).reason == "ImagePullBackOff"


def test_a_trouble_without_words_says_its_reason():
    found = find_start_trouble(placed(trainer=waiting(message="")))
    assert found.message == "container trainer cannot start: ImagePullBackOff"
