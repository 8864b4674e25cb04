"""What the status of profiles counts: every interruption of every job once, also after a change of leader."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.operator.fake_api_server import raw_job
from tests.support.operator.profile_world import PATH, World

from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity.interruptions import MEMORY
from holdfast.runtime.informer.cache import Key

HOUR = timedelta(hours=1)


# Who counts


def test_jobs_that_are_gone_stay_counted(world: World) -> None:
    world.job("a", interruptions=3, node_time=600)
    world.delete("a")
    world.job("b")
    world.once()
    assert world.spot() == (3, timedelta(seconds=600))
    assert world.status().counted == ()
    world.job("b", interruptions=1)
    world.pass_by()
    assert world.spot()[0] == 4


def test_a_job_that_goes_while_it_runs_had_its_node_until_then(world: World) -> None:
    world.job("a", **world.running(0))
    world.clock.tick(500)
    world.delete("a")
    world.once()
    assert world.spot() == (0, timedelta(seconds=500))


def test_a_job_that_goes_while_another_profile_is_written(runner: asyncio.Runner) -> None:
    world = World(runner, "first", "second")

    def meanwhile(body: Any) -> Any:
        world.delete("b")
        return world.client._serve("PATCH", f"{PATH}/first/status", body)

    world.client.on("PATCH", "/first/status$", meanwhile)
    world.job("a", "first", interruptions=1)
    world.job("b", "second", interruptions=2)
    world.once()
    assert world.spot("second")[0] == 2
    assert world.status("second").counted == ()


def test_another_job_of_the_same_name(world: World) -> None:
    world.job("a", interruptions=3)
    world.version += 1
    again = raw_job("a", "u-other", world.version)
    again["spec"]["capacity"] = {"profile": "grid"}
    world.cache.put_job(again)
    world.once()
    assert world.spot()[0] == 3
    assert world.status().counted == ()


def test_a_job_that_changes_its_profile_counts_where_it_was_when(runner: asyncio.Runner) -> None:
    world = World(runner, "grid", "other")
    world.job("a", interruptions=3)
    world.job("a", "other", interruptions=3)
    world.job("a", "other", interruptions=4)
    world.job("a", None, interruptions=9)
    world.job("a", interruptions=9)
    world.job("a", interruptions=10)
    for _ in range(3):
        world.pass_by()
    assert (world.spot()[0], world.spot("other")[0]) == (4, 1)
    world.restart()
    world.job("a", interruptions=11)
    world.pass_by()
    assert (world.spot()[0], world.spot("other")[0]) == (5, 1)


def test_a_job_that_cannot_be_read_for_a_while_is_not_gone(world: World) -> None:
    world.job("a", interruptions=3)
    world.job("a", interruptions=3, phase=7)
    assert world.cache.malformed
    world.profiles.keep_only({"u-a"})
    world.pass_by()
    world.job("a", interruptions=4)
    world.pass_by()
    assert world.spot()[0] == 4


def test_jobs_whose_end_was_missed_are_forgotten(world: World) -> None:
    world.job("a", interruptions=3)
    world.once()
    del world.cache.jobs[Key("ns", "a")]
    world.profiles.keep_only(set())
    world.pass_by()
    assert world.status().counted == ()
    assert world.spot()[0] == 3


def test_a_job_that_changes_its_profile_while_it_cannot_be_read(runner: asyncio.Runner) -> None:
    world = World(runner, "grid", "other")
    world.job("a", interruptions=3)
    world.once()
    world.job("a", "other", phase=7)
    world.job("a", "other", interruptions=3)
    world.pass_by()
    assert (world.spot()[0], world.spot("other")[0]) == (3, 0)
    assert world.status().counted == (), "it is not among those that count"


def test_jobs_count_while_their_profile_cannot_be_read(world: World) -> None:
    world.job("a", interruptions=3)
    world.once()
    good = world.client.objects[f"{PATH}/grid"]
    world.cache.put_profile(world.client.put(f"{PATH}/grid", {**good, "spec": {"tiers": 7}}))
    world.pass_by()
    world.job("a", interruptions=5)
    world.delete("a")
    world.cache.put_profile(world.client.put(f"{PATH}/grid", good))
    world.pass_by()
    assert world.spot()[0] == 5


@pytest.mark.parametrize("noticed", [True, False])
def test_a_profile_that_was_made_anew_knows_what_its_jobs_know(world: World, noticed: bool) -> None:
    world.job("a", interruptions=3)
    world.delete("a")
    world.job("b", interruptions=1)
    world.once()
    raw = world.client.objects.pop(f"{PATH}/grid")
    if noticed:
        world.cache.drop("profiles", raw)
        world.pass_by()
    world.cache.put_profile(world.put_profile("grid", uid="new"))
    world.pass_by()
    assert world.spot()[0] == 1


def test_a_tier_that_was_taken_out_is_forgotten(world: World) -> None:
    world.job("a", interruptions=3)
    world.once()
    before = world.client.objects[f"{PATH}/grid"]
    spec = {"tiers": [{"name": "dedicated", "kind": "Dedicated"}]}
    world.cache.put_profile(world.client.put(f"{PATH}/grid", {**before, "spec": spec}))
    world.pass_by()
    assert world.status() == CapacityProfileStatus()


def test_what_is_long_past_counts_less(world: World) -> None:
    world.job("a", interruptions=MEMORY, node_time=MEMORY * 3600)
    world.once()
    assert world.spot() == (MEMORY // 2, MEMORY // 2 * HOUR)
    world.job("a", interruptions=MEMORY + 1, node_time=MEMORY * 3600)
    world.pass_by()
    assert world.spot()[0] == MEMORY // 2 + 1
    world.restart()
    world.pass_by()
    assert world.spot()[0] == MEMORY // 2 + 1


# Whole lives

STEPS = st.one_of(
    st.tuples(st.just("loss"), st.sampled_from("abc")),
    st.tuples(st.just("end"), st.sampled_from("abc")),
    st.tuples(st.sampled_from(("delete", "look", "look", "look at once", "stop")), st.sampled_from("abc")),
    st.tuples(st.just("crash"), st.sampled_from(("", "a", "ab"))),
)


class Lives:
    """Jobs a, b and c, each followed by another one when it is deleted, and a count of all that befell them."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.world = World(runner)
        self.befell = self.written = self.missable = (0, 0)  # interruptions, and node time on spot in seconds
        self.deleted = False  # a job, since the last write
        self._own = dict.fromkeys("abc", (0, 0))
        self._generation = dict.fromkeys("abc", 0)
        for letter in "abc":
            self._put(letter)

    def end(self, letter: str, interruptions: int) -> None:
        """An attempt is over."""
        self._own[letter] = _sum(self._own[letter], (interruptions, 100))
        self.befell = _sum(self.befell, (interruptions, 100))
        self._put(letter)

    def delete(self, letters: str) -> None:
        """Other jobs follow."""
        for letter in letters:
            self.world.delete(f"{letter}{self._generation[letter]}")
            self._own[letter] = (0, 0)
            self._generation[letter] += 1
            self._put(letter)
            self.deleted = True

    def crash(self, letters: str) -> None:
        """The operator is killed, and these jobs are deleted before the next one leads."""
        self.delete(letters)
        if self.deleted:
            self.missable = _sum(self.missable, self.befell, (-self.written[0], -self.written[1]))
        self.world.restart()

    def stop(self) -> None:
        """The operator ends, and another one begins."""
        self.world.end()
        self.world.restart()

    def do(self, step: str, letters: str) -> None:
        """One thing happens."""
        writes = self.world.writes
        match step:
            case "loss" | "end":
                self.end(letters, int(step == "loss"))
            case "delete":
                self.delete(letters)
            case "look":
                self.world.pass_by()
            case "look at once":
                self.world.once()
            case "stop":
                self.stop()
            case _:
                self.crash(letters)
        if self.world.writes > writes:
            self.written, self.deleted = self.befell, False

    def _put(self, letter: str) -> None:
        interruptions, seconds = self._own[letter]
        self.world.job(f"{letter}{self._generation[letter]}", interruptions=interruptions, node_time=seconds)


def _sum(*pairs: tuple[int, int]) -> tuple[int, int]:
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


@given(st.lists(STEPS, max_size=60))
def test_lives_of_jobs_and_operators_against_a_direct_count(
    runner: asyncio.Runner, steps: list[tuple[str, str]]
) -> None:
    """An interruption counts once, also after a change of leader, and also of jobs that are deleted.

    If jobs are deleted between the last write and the start of the next operator, other events of that time may be
    missed.
    """
    lives, floor = Lives(runner), (0, timedelta(0))
    for step, letters in [*steps, ("stop", "")]:
        lives.do(step, letters)
        interruptions, had = lives.world.spot()
        assert floor[0] <= interruptions <= lives.befell[0], "what was written stays, and nothing counts twice"
        assert floor[1] <= had <= timedelta(seconds=lives.befell[1])
        floor = (interruptions, had)
    rounded = len(steps)  # a second, whenever an operator goes on from what another one wrote
    assert interruptions >= lives.befell[0] - lives.missable[0]
    assert had.total_seconds() >= lives.befell[1] - lives.missable[1] - rounded
