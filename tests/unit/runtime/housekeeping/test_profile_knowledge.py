"""The leader writes what is known of tiers into the status of profiles: when, what, and nothing twice."""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.operator.fake_api_server import Clock, FakeClient, raw_job

from holdfast.api import names
from holdfast.api.profile import CapacityProfileStatus
from holdfast.api.scalars import format_duration, format_time
from holdfast.core.capacity.loss_counts import MEMORY
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping.profile_knowledge import WRITES, ProfileStatusWriter
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue
from holdfast.serve.token_bucket import TokenBucket

EVERY = 30.0
RUNNER = asyncio.Runner()
PATH = f"/apis/{names.API_VERSION}/{names.PROFILE_PLURAL}"
TIERS = ("spot", "dedicated")
HOUR = timedelta(hours=1)


class World:
    """An API server with profiles and jobs, and one operator after the other that keeps the profiles."""

    def __init__(self, *profiles: str) -> None:
        self.client = FakeClient()
        self.clock = Clock()
        self.version = 1000
        self.jobs: dict[str, dict[str, Any]] = {}
        for name in profiles or ("grid",):
            self.put_profile(name)
        self.restart()

    def restart(self) -> None:
        """Another operator takes over; nothing is left of what the one before had in memory."""
        self.cache, self.queue = Cache(), WorkQueue[Key](self.clock)
        gate = LeadershipGate(self.clock)
        gate.keep_open(float("inf"))
        writer = GatedWriter(self.client, gate, TokenBucket(1e6, 1e6, self.clock))
        self.profiles = ProfileStatusWriter(
            writer, self.cache, self.queue, every=EVERY, acquire_time=timedelta(minutes=1), now=self.clock.now,
            clock=self.clock,
        )  # fmt: skip
        self.cache.replace_all("profiles", self.client.objects.values(), self.client.version)
        self.cache.replace_all("jobs", self.jobs.values(), self.version)
        self.profiles.begin()

    def put_profile(self, name: str, uid: str = "", tiers: Iterable[str] = TIERS) -> dict[str, Any]:
        grid = [{"name": tier, "kind": "Spot"} for tier in tiers]
        return self.client.put(
            f"{PATH}/{name}", {"metadata": {"name": name, "uid": uid or name}, "spec": {"tiers": grid}}
        )

    def job(self, name: str, profile: str | None = "grid", losses: int = 0, had: float = 0, **status: Any) -> None:
        """The job as it is now; `losses` of spot, which it had for so many seconds. A new job has none at first."""
        if name not in self.jobs and (losses or had):
            self.job(name, profile)
        self.version += 1
        tiers = [{"tier": "spot", "losses": losses, "had": format_duration(timedelta(seconds=had))}]
        raw = raw_job(name, f"u-{name}", self.version, **({"tiers": tiers} if losses or had else {}), **status)
        raw["spec"]["capacity"] = {"profile": profile} if profile else raw["spec"]["capacity"]
        raw["metadata"]["generation"] = self.version
        self.jobs[name] = raw
        self.cache.put_job(raw)

    def delete(self, name: str) -> None:
        self.version += 1
        raw = self.jobs.pop(name)
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.cache.drop_job(raw)

    def once(self) -> None:
        RUNNER.run(self.profiles.once())

    def pass_by(self, seconds: float = EVERY) -> None:
        self.clock.tick(seconds)
        self.once()

    @property
    def writes(self) -> int:
        return len(self.client.sent("PATCH"))

    def status(self, name: str = "grid") -> CapacityProfileStatus:
        return CapacityProfileStatus.model_validate(self.client.objects[f"{PATH}/{name}"].get("status") or {})

    def spot(self, name: str = "grid") -> tuple[int, timedelta]:
        found = {one.tier: one for one in self.status(name).tiers}
        return (found["spot"].losses, found["spot"].had) if "spot" in found else (0, timedelta(0))

    def refused(self) -> list[dict[str, Any]]:
        """What a job writes into its status when spot gave it no node."""
        now = format_time(self.clock.now())
        return [{"tier": "spot", "state": "Refused", "since": now, "seenAt": now}]

    def running(self, since: float) -> dict[str, Any]:
        """Fields of a job that has had a node of spot for so many seconds."""
        at = format_time(self.clock.now() - timedelta(seconds=since))
        tier = {"name": "spot", "kind": "Spot"}
        current = {"number": 1, "state": "Running", "tier": tier, "raisedAt": at, "createdAt": at, "scheduledAt": at}
        return {"phase": "Running", "attempt": 1, "current": current}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True, scope="module")
def loop() -> Iterator[None]:
    """One event loop for all of them: hypothesis makes a world many times."""
    with RUNNER:
        yield


# When


def test_a_profile_of_which_nothing_is_known_is_not_written(world: World) -> None:
    world.job("a")
    for _ in range(5):
        world.pass_by()
    assert world.writes == 0


def test_news_is_written_at_once_and_then_at_a_bounded_rate(world: World) -> None:
    world.job("a")
    world.once()
    world.job("a", losses=1)
    world.once()
    assert (world.spot()[0], world.writes) == (1, 1)
    world.job("a", losses=2)
    world.pass_by(EVERY - 1)
    assert (world.spot()[0], world.writes) == (1, 1)
    world.pass_by(1)
    assert (world.spot()[0], world.writes) == (2, 2)


def test_that_a_tier_stays_up_is_written_seldom(world: World) -> None:
    world.job("a", **world.running(10))
    world.once()
    for _ in range(60):
        world.pass_by(10)
    assert world.writes == 3, "once, and then every five minutes"
    seen = world.status().tiers[0]
    assert seen.seen_at == world.clock.now()
    assert (seen.losses, seen.had) == (0, timedelta(seconds=600))


def test_idle_jobs_cost_no_write(world: World) -> None:
    for number in range(20):
        world.job(f"j{number}", losses=1, had=60, phase="Completed")
    world.once()
    for _ in range(60):
        world.pass_by()
    assert (world.writes, world.spot()) == (1, (20, timedelta(seconds=1200)))


def test_few_profiles_at_a_time(world: World) -> None:
    many = World(*(f"p{number}" for number in range(2 * WRITES + 1)))
    for number in range(2 * WRITES + 1):
        many.job(f"j{number}", f"p{number}", losses=1)
    counts = []
    for _ in range(4):
        many.pass_by(1)
        counts.append(many.writes)
    assert counts == [WRITES, 2 * WRITES, 2 * WRITES + 1, 2 * WRITES + 1]


def test_a_follower_writes_nothing(world: World) -> None:
    world.job("a", losses=1)
    world.profiles._writer._gate.close()
    world.once()
    RUNNER.run(world.profiles.flush())
    assert world.writes == 0


def test_an_operator_that_ends_writes_what_is_left(world: World) -> None:
    world.job("a", losses=1)
    world.once()
    world.job("a", losses=2)
    RUNNER.run(world.profiles.flush())
    assert world.spot()[0] == 2
    RUNNER.run(world.profiles.flush())
    assert world.writes == 2


# Errors


def test_a_conflict_is_tried_again_on_what_is_there_by_then(world: World) -> None:
    world.job("a", losses=1)
    world.put_profile("grid", tiers=(*TIERS, "cpu"))
    world.once()
    assert world.spot() == (0, timedelta(0))
    world.cache.put_profile(world.client.objects[f"{PATH}/grid"])
    world.pass_by()
    assert world.spot()[0] == 1


@pytest.mark.parametrize(
    "error", [ApiError(500, "Boom", "no"), ApiError(0, "Unreachable", "no"), ApiError(404, "x", "")]
)
def test_an_error_is_tried_again(world: World, error: ApiError) -> None:
    world.client.on("PATCH", "/status$", error)
    world.job("a", losses=1)
    world.once()
    world.pass_by(1)
    assert world.writes == 1, "not at once"
    world.pass_by()
    assert world.spot()[0] == 1


def test_a_write_of_which_nobody_knows_whether_it_was_done_counts_once(world: World) -> None:
    def lost(body: Any) -> Any:
        world.client._serve("PATCH", f"{PATH}/grid/status", body)
        raise ApiError(0, "Unreachable", "no answer")

    world.client.on("PATCH", "/status$", lost)
    world.job("a", losses=1)
    world.once()
    world.cache.put_profile(world.client.objects[f"{PATH}/grid"])
    world.job("a", losses=2)
    world.pass_by()
    assert world.spot()[0] == 2


def test_a_status_that_cannot_be_read_is_written_anew(world: World, caplog: pytest.LogCaptureFixture) -> None:
    bad = world.put_profile("grid")
    bad["status"] = {"tiers": [{"tier": 7, "losses": -3}], "counted": "x"}
    world.cache.put_profile(world.client.put(f"{PATH}/grid", bad))
    assert "grid" in world.cache.profiles, "jobs can use it all the same"
    world.once()
    assert world.client.objects[f"{PATH}/grid"]["status"] == {"up": "", "out": "", "tiers": [], "counted": []}
    assert "replacing the status of CapacityProfile grid" in caplog.text
    assert "status.tiers[0].tier" in caplog.text
    for _ in range(3):
        world.pass_by()
    assert (world.writes, world.cache.bad_status) == (1, {})


def test_what_somebody_else_wrote_is_put_right(world: World) -> None:
    world.job("a", losses=2)
    world.once()
    raw = world.client.objects[f"{PATH}/grid"]
    world.cache.put_profile(world.client.put(f"{PATH}/grid", {**raw, "status": {}}))
    world.pass_by()
    assert world.spot()[0] == 2


# Who counts


def test_jobs_that_are_gone_stay_counted(world: World) -> None:
    world.job("a", losses=3, had=600)
    world.delete("a")
    world.job("b")
    world.once()
    assert world.spot() == (3, timedelta(seconds=600))
    assert world.status().counted == ()
    world.job("b", losses=1)
    world.pass_by()
    assert world.spot()[0] == 4


def test_a_job_that_goes_while_it_runs_had_its_node_until_then(world: World) -> None:
    world.job("a", **world.running(0))
    world.clock.tick(500)
    world.delete("a")
    world.once()
    assert world.spot() == (0, timedelta(seconds=500))


def test_a_job_that_goes_while_another_profile_is_written() -> None:
    world = World("first", "second")

    def meanwhile(body: Any) -> Any:
        world.delete("b")
        return world.client._serve("PATCH", f"{PATH}/first/status", body)

    world.client.on("PATCH", "/first/status$", meanwhile)
    world.job("a", "first", losses=1)
    world.job("b", "second", losses=2)
    world.once()
    assert world.spot("second")[0] == 2
    assert world.status("second").counted == ()


def test_another_job_of_the_same_name(world: World) -> None:
    world.job("a", losses=3)
    world.version += 1
    again = raw_job("a", "u-other", world.version)
    again["spec"]["capacity"] = {"profile": "grid"}
    world.cache.put_job(again)
    world.once()
    assert world.spot()[0] == 3
    assert world.status().counted == ()


def test_a_job_that_changes_its_profile_counts_where_it_was_when() -> None:
    world = World("grid", "other")
    world.job("a", losses=3)
    world.job("a", "other", losses=3)
    world.job("a", "other", losses=4)
    world.job("a", None, losses=9)
    world.job("a", losses=9)
    world.job("a", losses=10)
    for _ in range(3):
        world.pass_by()
    assert (world.spot()[0], world.spot("other")[0]) == (4, 1)
    world.restart()
    world.job("a", losses=11)
    world.pass_by()
    assert (world.spot()[0], world.spot("other")[0]) == (5, 1)


def test_a_job_that_cannot_be_read_for_a_while_is_not_gone(world: World) -> None:
    world.job("a", losses=3)
    world.job("a", losses=3, phase=7)
    assert world.cache.malformed
    world.profiles.keep_only({"u-a"})
    world.pass_by()
    world.job("a", losses=4)
    world.pass_by()
    assert world.spot()[0] == 4


def test_jobs_whose_end_was_missed_are_forgotten(world: World) -> None:
    world.job("a", losses=3)
    world.once()
    del world.cache.jobs[Key("ns", "a")]
    world.profiles.keep_only(set())
    world.pass_by()
    assert world.status().counted == ()
    assert world.spot()[0] == 3


def test_a_job_that_changes_its_profile_while_it_cannot_be_read() -> None:
    world = World("grid", "other")
    world.job("a", losses=3)
    world.once()
    world.job("a", "other", phase=7)
    world.job("a", "other", losses=3)
    world.pass_by()
    assert (world.spot()[0], world.spot("other")[0]) == (3, 0)
    assert world.status().counted == (), "it is not among those that count"


def test_jobs_count_while_their_profile_cannot_be_read(world: World) -> None:
    world.job("a", losses=3)
    world.once()
    good = world.client.objects[f"{PATH}/grid"]
    world.cache.put_profile(world.client.put(f"{PATH}/grid", {**good, "spec": {"tiers": 7}}))
    world.pass_by()
    world.job("a", losses=5)
    world.delete("a")
    world.cache.put_profile(world.client.put(f"{PATH}/grid", good))
    world.pass_by()
    assert world.spot()[0] == 5


@pytest.mark.parametrize("noticed", [True, False])
def test_a_profile_that_was_made_anew_knows_what_its_jobs_know(world: World, noticed: bool) -> None:
    world.job("a", losses=3)
    world.delete("a")
    world.job("b", losses=1)
    world.once()
    raw = world.client.objects.pop(f"{PATH}/grid")
    if noticed:
        world.cache.drop_profile(raw)
        world.pass_by()
    world.cache.put_profile(world.put_profile("grid", uid="new"))
    world.pass_by()
    assert world.spot()[0] == 1


def test_a_tier_that_was_taken_out_is_forgotten(world: World) -> None:
    world.job("a", losses=3)
    world.once()
    before = world.client.objects[f"{PATH}/grid"]
    spec = {"tiers": [{"name": "dedicated", "kind": "Dedicated"}]}
    world.cache.put_profile(world.client.put(f"{PATH}/grid", {**before, "spec": spec}))
    world.pass_by()
    assert world.status() == CapacityProfileStatus()


def test_what_is_long_past_counts_less(world: World) -> None:
    world.job("a", losses=MEMORY, had=MEMORY * 3600)
    world.once()
    assert world.spot() == (MEMORY // 2, MEMORY // 2 * HOUR)
    world.job("a", losses=MEMORY + 1, had=MEMORY * 3600)
    world.pass_by()
    assert world.spot()[0] == MEMORY // 2 + 1
    world.restart()
    world.pass_by()
    assert world.spot()[0] == MEMORY // 2 + 1


# What it leads to


def test_jobs_are_asked_again_when_a_tier_came_or_went_and_not_all_at_once(world: World) -> None:
    for number in range(9):
        world.job(f"j{number}", phase="Completed" if number == 0 else "Acquiring")
    world.job("other", None)
    world.job("j1", tiers=world.refused(), phase="Acquiring")
    world.once()
    assert world.queue.scheduled == 8
    due = sorted(due - world.clock() for due in world.queue._later.values())
    assert due == pytest.approx([0.25 * place for place in range(1, 9)])


def test_jobs_are_not_asked_again_for_less(world: World) -> None:
    for number in range(9):
        world.job(f"j{number}", losses=1, **world.running(10))
    world.once()
    world.queue = world.profiles._queue = WorkQueue(world.clock)
    for number in range(9):
        world.job(f"j{number}", losses=2, **world.running(10))
    world.pass_by()
    assert (world.writes, world.queue.scheduled) == (2, 0)


# Whole lives

STEPS = st.one_of(
    st.tuples(st.just("loss"), st.sampled_from("abc")),
    st.tuples(st.just("end"), st.sampled_from("abc")),
    st.tuples(st.sampled_from(("delete", "look", "look", "look at once", "stop")), st.sampled_from("abc")),
    st.tuples(st.just("crash"), st.sampled_from(("", "a", "ab"))),
)


class Lives:
    """Jobs a, b and c, each followed by another one when it is deleted, and a count of all that befell them."""

    def __init__(self) -> None:
        self.world = World()
        self.befell = self.written = self.missable = (0, 0)  # losses, and seconds that spot was had
        self.deleted = False  # a job, since the last write
        self._own = dict.fromkeys("abc", (0, 0))
        self._generation = dict.fromkeys("abc", 0)
        for letter in "abc":
            self._put(letter)

    def end(self, letter: str, losses: int) -> None:
        """An attempt is over."""
        self._own[letter] = _sum(self._own[letter], (losses, 100))
        self.befell = _sum(self.befell, (losses, 100))
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
        RUNNER.run(self.world.profiles.flush())
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
        losses, seconds = self._own[letter]
        self.world.job(f"{letter}{self._generation[letter]}", losses=losses, had=seconds)


def _sum(*pairs: tuple[int, int]) -> tuple[int, int]:
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


@given(st.lists(STEPS, max_size=60))
def test_lives_of_jobs_and_operators_against_a_direct_count(steps: list[tuple[str, str]]) -> None:
    """A loss counts once, whoever leads, also of jobs that are deleted.

    Only where jobs are deleted between the last write and the end of a crash, what else happened then may be missed.
    """
    lives, floor = Lives(), (0, timedelta(0))
    for step, letters in [*steps, ("stop", "")]:
        lives.do(step, letters)
        losses, had = lives.world.spot()
        assert floor[0] <= losses <= lives.befell[0], "what was written stays, and nothing counts twice"
        assert floor[1] <= had <= timedelta(seconds=lives.befell[1])
        floor = (losses, had)
    rounded = len(steps)  # a second, whenever an operator goes on from what another one wrote
    assert losses >= lives.befell[0] - lives.missable[0]
    assert had.total_seconds() >= lives.befell[1] - lives.missable[1] - rounded
