import asyncio

from hypothesis import given
from hypothesis import strategies as st

from holdfast.serve.fair_line import FairLine, Places, Turns


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


def test_a_group_that_may_not_have_its_turn_keeps_its_place() -> None:
    line: FairLine[str] = FairLine(lambda one: one[0])
    for one in ("a1", "a2", "b1", "c1"):
        line.put(one)
    assert line.take(lambda group: group != "a") == "b1"
    assert not line.has_next(lambda group: group == "b")
    assert [line.take() for _ in range(3)] == ["a1", "c1", "a2"]


def test_the_largest_group_gives_up_its_first() -> None:
    line: FairLine[str] = FairLine(lambda one: one[0])
    for one in ("b1", "a1", "a2", "a3", "b2"):
        line.put(one)
    assert [line.take_from_largest() for _ in range(2)] == ["a1", "b1"]
    assert len(line) == 3


@given(st.lists(st.sampled_from("abcd"), max_size=200), st.integers(1, 64))
def test_one_group_leaves_places_free_and_a_group_without_one_gets_what_is_free(asks: list[str], most: int) -> None:
    places, taken = Places(most), dict[str, int]()
    for group in asks:
        if places.may_take(group):
            places.take(group)
            taken[group] = taken.get(group, 0) + 1
        elif group not in taken:
            assert sum(taken.values()) == most, "all places are taken"
    assert sum(taken.values()) <= most
    if len(taken) == 1 and most >= 8:
        assert most - sum(taken.values()) >= most // 8
    for group, count in taken.items():
        for _ in range(count):
            places.leave(group)
    assert places.may_take("a")


async def test_a_group_that_waits_for_turns_leaves_one_to_another_group() -> None:
    """Breaks if one namespace takes all turns to write: others then wait for the end of one of its writes."""
    turns, let, began = Turns(16), asyncio.Event(), list[str]()

    async def work(group: str) -> None:
        async with turns.turn(group):
            began.append(group)
            await let.wait()

    many = [asyncio.create_task(work("many")) for _ in range(50)]
    await asyncio.sleep(0)
    few = asyncio.create_task(work("few"))
    await asyncio.sleep(0)
    assert (began.count("many"), began.count("few")) == (14, 1)
    many[-1].cancel()  # it waits
    many[0].cancel()  # it has a turn
    let.set()
    await asyncio.gather(*many, few, return_exceptions=True)
    assert began.count("many") == 49
