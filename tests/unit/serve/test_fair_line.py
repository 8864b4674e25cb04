import asyncio

from hypothesis import given
from hypothesis import strategies as st

from holdfast.serve.fair_line import FairLine, Turns


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), unique=True))
def test_nobody_waits_for_more_than_one_of_each_other_group(things: list[tuple[str, int]]) -> None:
    line: FairLine[tuple[str, int]] = FairLine(lambda one: one[0])
    for since, one in enumerate(things):
        line.put(one, since)
    assert len(line) == len(things)
    assert line.oldest() == (0 if things else float("inf"))
    taken = [line.take() for _ in things]
    for group in {group for group, _ in things}:
        mine = [one for one in taken if one[0] == group]
        assert mine == [one for one in things if one[0] == group]
        for number, one in enumerate(mine):
            before = taken[: taken.index(one)]
            assert all(sum(other[0] == name for other in before) <= number + 1 for name in "abc")
    assert (len(line), line.oldest()) == (0, float("inf"))


def test_what_is_removed_does_not_wait_and_what_is_put_twice_waits_once() -> None:
    line: FairLine[str] = FairLine(lambda one: one[0])
    line.put("a1", 1.0)
    line.put("a1", 5.0)
    line.put("b1", 2.0)
    assert line.remove("a1") == 1.0
    assert line.remove("a1") is None
    assert ("a1" in line, "b1" in line, len(line), line.oldest()) == (False, True, 1, 2.0)


async def test_turns_go_round_the_groups_and_are_not_lost() -> None:
    turns, order = Turns(1), list[str]()
    let = asyncio.Event()

    async def work(group: str) -> None:
        async with turns.turn(group):
            order.append(group)
            await let.wait()

    tasks = [asyncio.create_task(work(group)) for group in ("many", "many", "many", "many", "few")]
    await asyncio.sleep(0)
    tasks[1].cancel()  # it waits
    tasks[0].cancel()  # it has the turn
    let.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["many", "many", "few", "many"]
