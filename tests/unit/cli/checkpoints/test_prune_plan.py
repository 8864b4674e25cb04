"""What a prune removes, and that it is safe beside attempts that live."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.trainer import stores
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_cli.checkpoints.prune_command import carry_out
from holdfast_cli.checkpoints.prune_plan import Item, Plan, broken_commits, plan
from holdfast_cli.checkpoints.survey import Prefix, survey
from holdfast_cli.errors import CliError
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.format.names import CheckpointName

DAY = timedelta(hours=24)
ONE = Keep(1)
LATER = datetime.now(UTC) + timedelta(days=2)  # after everything in a MemoryStorage was written


def attempt(storage: MemoryStorage, number: int, *, uid: str = "uid-1", resume: str = "Auto") -> Checkpoints:
    found = Checkpoints(storage, identity(number, uid=uid), Keep(last=10))
    found.start(resume)
    return found


def save(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        stores.save(checkpoints, step, {"objects": {"x": np.full(100, step)}}, [None])


def cut_off(storage: MemoryStorage, step: int, number: int) -> CheckpointName:
    """A save that ended before its commit."""
    name = CheckpointName(step, number, "0123456789ab")
    storage.put(name.part_key(0, 0), b"abc")
    return name


def wanted(prefix: Prefix, keep: Keep | None = None, *, now: datetime = LATER) -> list[int]:
    """Steps that would go."""
    return sorted(item.step for item in plan(prefix, keep, broken_commits(prefix, {}), DAY, now).items)


@pytest.fixture
def ended() -> MemoryStorage:
    """Attempt 2 has handed over. Committed: 10, 20, 30; interrupted: 15 by attempt 1, 35 by attempt 2."""
    storage = MemoryStorage()
    save(attempt(storage, 1), 10, 20)
    second = attempt(storage, 2)
    save(second, 30)
    second.hand_over()
    cut_off(storage, 15, 1)
    cut_off(storage, 35, 2)
    return storage


def test_nothing_committed_goes_unless_asked(ended: MemoryStorage) -> None:
    assert wanted(survey(ended)) == [15, 35]


@pytest.mark.parametrize(("last", "steps"), [(1, [10, 15, 20, 35]), (2, [10, 15, 35]), (3, [15, 35]), (9, [15, 35])])
def test_retention(ended: MemoryStorage, last: int, steps: list[int]) -> None:
    assert wanted(survey(ended), Keep(last)) == steps


def test_what_is_young_stays(ended: MemoryStorage) -> None:
    young = datetime.now(UTC) + DAY - timedelta(minutes=5)
    made = plan(survey(ended), None, {}, DAY, young)
    assert made.items == ()
    assert [kept.why for kept in made.kept] == ["it was written too recently"] * 2


def test_the_newest_fence_keeps_what_its_attempt_may_write(ended: MemoryStorage) -> None:
    """Breaks if age alone decides: a save may take longer than any limit."""
    attempt(ended, 3)
    cut_off(ended, 31, 3)
    cut_off(ended, 99, 7)  # of an attempt that has yet to raise its fence, or of a job before this one
    assert wanted(survey(ended)) == [15, 35]
    made = plan(survey(ended), None, {}, DAY, LATER)
    assert [kept.why for kept in made.kept] == ["attempt 3 may be writing it"] * 2


def test_commits_stay_while_an_attempt_may_train(ended: MemoryStorage) -> None:
    attempt(ended, 3)
    made = plan(survey(ended), Keep(1), {}, DAY, LATER)
    assert made.refused is not None
    assert made.refused.attempt == 3
    assert made.retired == ()


@pytest.mark.parametrize("how", ["data short", "data gone", "manifest gone"])
def test_a_checkpoint_that_does_not_hold_does_not_count(ended: MemoryStorage, how: str) -> None:
    """Breaks if `--keep-last 1` keeps the broken newest and drops the one that training could go on from."""
    what, damage = how.split()
    (key,) = ended.keys(f"{'data' if what == 'data' else 'manifests'}/000000000030")
    if damage == "gone":
        del ended.content[key]
    else:
        ended.content[key] = ended.content[key][:-1]
    assert wanted(survey(ended), Keep(1)) == [10, 15, 35]


def test_set_aside_and_foreign_objects_stay(ended: MemoryStorage) -> None:
    attempt(ended, 1, uid="uid-2", resume="Never").hand_over()
    ended.put("data/notes/readme", b"mine")
    assert wanted(survey(ended), Keep(1)) == [15, 35]


def test_a_log_that_has_grown_is_asked_again(ended: MemoryStorage) -> None:
    """Breaks if the record is written on the word of what was read first: a fence came between."""
    prefix = survey(ended)
    made = plan(prefix, Keep(1), {}, DAY, LATER)
    attempt(ended, 3)
    before = dict(ended.content)
    with pytest.raises(CliError, match=r"attempt 3 .* may be training"):
        carry_out(ended, prefix.state, made)
    assert ended.content == before


def test_a_listing_that_lags_behind_hides_no_commit(ended: MemoryStorage) -> None:
    """Breaks if the newest record of a listing is taken for the newest: its commits would look like orphans."""
    real = ended.keys
    newest = real("log/")[-1]
    before = [key for key in real("log/") if key < newest][:-2]
    ended.keys = lambda prefix, after="": before if prefix == "log/" else real(prefix, after)  # type: ignore[method-assign]
    prefix = survey(ended)
    assert [c.step for c in prefix.state.commits] == [10, 20, 30]
    assert wanted(prefix) == [15, 35]


def test_a_checkpoint_committed_while_the_question_is_open_stays() -> None:
    storage = MemoryStorage()
    first = attempt(storage, 1)
    save(first, 10)
    first.hand_over()
    name = cut_off(storage, 15, 1)
    made = plan(survey(storage), None, {}, DAY, LATER)
    second = attempt(storage, 2)
    save(second, 20)
    state = second.log.state
    carry_out(storage, state, made)
    assert not storage.keys(f"data/{name}")
    assert restore_whole(attempt(storage, 3)) is not None


def lives(storage: MemoryStorage) -> None:
    """Attempts that train, hand over and die without notice, and a job that is created again."""
    first = attempt(storage, 1)
    save(first, 10, 20)
    first.hand_over()
    save(attempt(storage, 2), 30)
    again = attempt(storage, 1, uid="uid-2")
    restore_whole(again)
    save(again, 40)
    again.hand_over()
    last = attempt(storage, 2, uid="uid-2")
    assert restore_whole(last) is not None
    save(last, 50)
    last.complete(50)


def pruned(storage: MemoryStorage, keep: Keep | None = ONE) -> None:
    """A person's prune with the least patience there is."""
    try:
        prefix = survey(storage)
        made = plan(prefix, keep, broken_commits(prefix, {}), timedelta(0), LATER)
        if made.refused:
            made = plan(prefix, None, {}, timedelta(0), LATER)
        carry_out(storage, prefix.state, made)
    except CliError:
        return


def calls() -> int:
    storage, count = MemoryStorage(), 0

    def before(method: str, key: str) -> None:
        nonlocal count
        count += 1

    storage.before = before
    lives(storage)
    return count


def test_a_prune_at_any_point_of_attempts_lives_costs_them_nothing() -> None:
    """One prune before each call to the storage. Breaks without the fence's rule for objects that no record names."""
    for moment in range(calls()):
        storage, seen = MemoryStorage(), {"calls": 0, "inside": False}

        def before(method: str, key: str, at: int = moment, seen: Any = seen, storage: Any = storage) -> None:
            if seen["inside"]:
                return
            if seen["calls"] == at:
                seen["inside"] = True
                pruned(storage)
                seen["inside"] = False
            seen["calls"] += 1

        storage.before = before
        lives(storage)
        storage.before = lambda method, key: None
        state = survey(storage).state
        assert (state.complete, state.commits[-1].step) == (50, 50), moment
        for commit in state.commits:
            assert storage.size(commit.name.manifest_key), (moment, commit)
            assert sum(storage.size(key) or 0 for key in storage.keys(commit.name.data_prefix)) == commit.size


def test_attempts_at_any_point_of_a_prune_lose_nothing(ended: MemoryStorage) -> None:
    """The other way round: a whole life of an attempt between any two calls of a prune."""
    moment, over = 0, False
    while not over:
        storage, seen = MemoryStorage(), {"calls": 0, "inside": False}
        storage.content = dict(ended.content)

        def before(method: str, key: str, at: int = moment, seen: Any = seen, storage: Any = storage) -> None:
            if seen["inside"]:
                return
            if seen["calls"] == at:
                seen["inside"] = True
                third = attempt(storage, 3)
                restored = restore_whole(third)
                assert restored is not None
                assert (restored.step, restored.note) == (30, "")
                save(third, 40)
                seen["inside"] = False
            seen["calls"] += 1

        storage.before = before
        pruned(storage)
        over = seen["calls"] <= moment
        storage.before = lambda method, key: None
        fourth = attempt(storage, 4)
        restored = restore_whole(fourth)
        assert restored is not None
        assert (restored.step, restored.note) == (30 if over else 40, "")
        moment += 1
    assert moment > 5


@pytest.mark.parametrize("keep", [Keep(1), None])
def test_a_save_that_begins_at_any_point_of_a_prune_is_committed_whole(ended: MemoryStorage, keep: Keep | None) -> None:
    """Breaks if the log is read before the objects are listed: what an attempt wrote in between looks like orphans."""
    moment, over = 0, False
    while not over:
        storage, seen = MemoryStorage(), {"calls": 0, "inside": False}
        storage.content = dict(ended.content)
        late: list[Callable[[], Any]] = []

        def before(method: str, key: str, at: int = moment, seen: Any = seen, made: Any = (storage, late)) -> None:
            if seen["inside"]:
                return
            if seen["calls"] == at:
                seen["inside"] = True
                unfinished(*made)
                seen["inside"] = False
            seen["calls"] += 1

        storage.before = before
        pruned(storage, keep)
        over = seen["calls"] <= moment
        storage.before = lambda method, key: None
        for commit in late:
            commit()
        restored = restore_whole(attempt(storage, 4))
        assert restored is not None
        assert (restored.step, restored.note) == (30 if over else 40, "")
        moment += 1
    assert moment > 5


def unfinished(storage: MemoryStorage, late: list[Callable[[], Any]]) -> None:
    """Attempt 3 has written all of a checkpoint but its commit, which goes to `late`."""
    third = attempt(storage, 3)
    assert restore_whole(third) is not None
    real = third.log.commit

    def commit(*arguments: Any) -> Any:
        late.append(lambda: real(*arguments))
        raise InterruptedError

    third.log.commit = commit  # type: ignore[method-assign]
    with suppress(InterruptedError):
        save(third, 40)


def test_the_last_look_before_anything_is_deleted(ended: MemoryStorage) -> None:
    prefix = survey(ended)
    named = prefix.state.commits[0]
    item = Item(named.name, named.step, named.size, prefix.objects[named.name].keys, "a mistake")
    carry_out(ended, prefix.state, Plan((item,)))
    assert survey(ended).objects.keys() == prefix.objects.keys()


def test_a_prune_that_ends_at_any_point_can_be_done_again(ended: MemoryStorage) -> None:
    """Breaks if bytes go before the record that says so: what is committed would not hold."""
    moment, over = 0, False
    while not over:
        storage, seen = MemoryStorage(), {"calls": 0}
        storage.content = dict(ended.content)

        def before(method: str, key: str, at: int = moment, seen: Any = seen) -> None:
            if seen["calls"] >= at:
                raise KeyboardInterrupt
            seen["calls"] += 1

        storage.before = before
        with suppress(KeyboardInterrupt):
            pruned(storage)
            over = True
        storage.before = lambda method, key: None
        prefix = survey(storage)
        assert broken_commits(prefix, {}) == {}
        assert prefix.state.commits[-1].step == 30
        pruned(storage)
        assert [there.name.step for there in survey(storage).objects.values()] == [30]
        moment += 1
    assert moment > 5
