from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.informer.cache import Key
from holdfast.runtime.loop.progress_slots import ProgressSlots

A, B, C = (Key("ns", name) for name in "abc")
OTHER = Key("other", "a")


def test_saved_slots_are_given_at_once_and_then_jobs_stand_in_line() -> None:
    clock, given = Clock(), list[Key]()
    slots = ProgressSlots(10, given.append, burst=2, clock=clock)
    assert [slots.take(key) for key in (A, B, C)] == [True, True, False]
    slots.record_write(A)
    for key in (C, A, B, C):  # B has a slot already, and asking again keeps the place
        slots.wait(key)
    assert given == []
    clock.tick(0.11)
    assert not slots.take(OTHER), "others wait for the slot that there is"
    slots.hand_out()
    assert (given, slots.take(C)) == ([C], True)
    clock.tick(0.11)
    slots.hand_out()
    assert given == [C, A]


def test_namespaces_take_turns() -> None:
    """Breaks if the progress of one tenant with many jobs hides that of all others for minutes."""
    clock, given = Clock(), list[Key]()
    slots = ProgressSlots(10, given.append, burst=1, clock=clock)
    for number in range(1000):
        slots.wait(Key("many", f"j{number}"))
    slots.wait(OTHER)
    for _ in range(2):
        clock.tick(0.11)
        slots.hand_out()
    assert OTHER in given


def test_over_a_minute_no_more_than_the_rate_is_written() -> None:
    clock, given = Clock(), list[Key]()
    slots = ProgressSlots(10, given.append, clock=clock)
    due = {Key("ns", f"j{number}"): 0.0 for number in range(1000)}
    written = 0
    for _ in range(600):
        for key in [key for key, at in due.items() if at <= clock.seconds]:
            if slots.take(key):
                slots.record_write(key)
                written += 1
                due[key] = clock.seconds + 15
            else:
                slots.wait(key)
        clock.tick(0.1)
        slots.hand_out()
    assert 550 <= written <= 620


def test_a_job_that_leaves_gives_its_slot_or_its_place_to_another_one() -> None:
    clock, given = Clock(), list[Key]()
    slots = ProgressSlots(1, given.append, burst=1, clock=clock)
    assert slots.take(A)
    for key in (B, C):
        slots.wait(key)
    slots.leave(B)
    slots.leave(A)
    slots.hand_out()
    assert given == [C]
    slots.keep_only({A})
    assert not slots.take(C), "it is gone"
