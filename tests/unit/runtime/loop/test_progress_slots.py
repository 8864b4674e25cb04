from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.loop.progress_slots import ProgressSlots


def test_saved_slots_are_given_at_once_and_then_jobs_stand_in_line() -> None:
    clock = Clock()
    slots = ProgressSlots(10, burst=2, clock=clock)
    given = 0
    while slots.may_write(f"j{given}"):
        slots.record_write(f"j{given}")
        given += 1
    assert given == 3
    assert [round(slots.enqueue(uid), 3) for uid in "abc"] == [0.1, 0.2, 0.3]
    assert round(slots.enqueue("a"), 3) == 0.1  # asking again keeps the place
    clock.tick(0.1)
    assert [slots.may_write(uid) for uid in "abc"] == [True, False, False]
    assert [slots.is_queued(uid) for uid in "abc"] == [False, True, True]


def test_over_a_minute_no_more_than_the_rate_is_written() -> None:
    clock = Clock()
    slots = ProgressSlots(10, clock=clock)
    due = {f"j{n}": 0.0 for n in range(1000)}
    written = 0
    for _ in range(6000):
        for uid in [uid for uid, at in due.items() if at <= clock.seconds]:
            if slots.may_write(uid):
                slots.record_write(uid)
                written += 1
                due[uid] = clock.seconds + 15
            else:
                due[uid] = clock.seconds + slots.enqueue(uid) + 0.001
        clock.tick(0.01)
    assert 550 <= written <= 620


def test_a_job_that_leaves_or_is_gone_is_forgotten() -> None:
    slots = ProgressSlots(1, burst=0, clock=Clock())
    slots.enqueue("a")
    slots.enqueue("b")
    slots.enqueue("c")
    slots.leave("a")
    slots.keep_only({"c"})
    assert [slots.is_queued(uid) for uid in "abc"] == [False, False, True]
