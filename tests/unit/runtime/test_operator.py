from typing import Any

from tests.support.fakes import Clock, FakeClient

from holdfast.runtime.gate import Gate
from holdfast.runtime.operator import Operator
from holdfast.runtime.settings import Settings


def test_pods_are_answered_during_a_short_outage_and_not_during_a_long_one() -> None:
    clock, client = Clock(), FakeClient()
    settings = Settings(namespace="ns")
    whole: Any = client
    operator = Operator(settings, whole)
    operator._gate = Gate(clock)
    operator._gate.keep_open(clock())
    clock.tick(settings.lease_duration - 0.1)
    assert operator._may_answer()
    clock.tick(0.2)  # another process may lead by now: pods have to connect anew
    assert not operator._may_answer()
