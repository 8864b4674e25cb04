"""Rollbacks and pins: what an attempt goes on from, who may still commit, and what is kept."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.commitlog.retention import retire
from holdfast_train.errors import AlreadyCompleteError, FencedError
from holdfast_train.format import names
from holdfast_train.format.names import CheckpointName

KEEP = Keep(2)


def commit(step: int, nonce: str = "0", *, clean: int | None = None) -> records.Commit:
    name = CheckpointName(step, 1, nonce)
    return records.Commit(0, step, 1, "2026-01-01T00:00:00+00:00", name, "00", 1, clean=clean)


def started(storage: MemoryStorage, number: int, *, pod: str = "") -> CommitLog:
    found = CommitLog(storage, identity(number, pod=pod or f"pod-{number}"))
    found.own("Auto")
    found.raise_fence()
    return found


def person(storage: MemoryStorage) -> CommitLog:
    found = CommitLog(storage, identity(0))
    found.refresh()
    return found


def steps(log: CommitLog) -> tuple[list[int], list[int]]:
    """Steps of the present branch, and steps that were left."""
    state = log.refresh()
    return [c.step for c in state.commits], [c.step for c in state.left]


def trained(*at: int) -> tuple[MemoryStorage, CommitLog]:
    """Attempt 1 has committed these steps; their commits are 3, 4, 5…"""
    storage = MemoryStorage()
    first = started(storage, 1)
    for step in at:
        first.commit(commit(step), Keep(9))
    return storage, first


def test_the_next_attempt_goes_on_from_the_target() -> None:
    storage, first = trained(10, 20, 30)
    record = first.roll_back(4, "the loss is not finite", found=27, skipped=7)
    assert (record.kind, record.step, record.found, record.skipped) == ("rollback", 20, 27, 7)
    second = started(storage, 2)
    assert steps(second) == ([10, 20], [30])
    assert records.newest(second.state) == second.state.commits[-1]
    assert [(r.to, r.step, r.attempt, r.why) for r in second.state.rollbacks] == [(4, 20, 1, "the loss is not finite")]


@pytest.mark.parametrize("by_person", [True, False])
def test_the_attempt_before_a_rollback_commits_nothing_more(by_person: bool) -> None:
    """Breaks if the attempt whose branch was left can put a commit, with its spoiled state, onto the new branch."""
    storage, first = trained(10, 20)
    (person(storage) if by_person else first).roll_back(3, "a person asked", by_person=by_person)
    before = dict(storage.content)
    with pytest.raises(FencedError, match=r"rolled back to step 10 \(a person asked\); attempt 1 must end"):
        first.commit(commit(30), KEEP)
    with pytest.raises(FencedError):
        first.complete(30)
    first.hand_over()  # has nothing to say: the rollback has ended the fence
    assert storage.content == before
    started(storage, 2).commit(commit(20, "b"), KEEP)
    with pytest.raises(FencedError):
        first.commit(commit(30), KEEP)


def test_a_successor_that_waits_may_pass_the_fence_after_a_rollback() -> None:
    storage, first = trained(10, 20)
    waiting = CommitLog(storage, identity(2))
    assert waiting.reason_to_pass_fence(1) is None
    first.roll_back(3, "x")
    assert waiting.reason_to_pass_fence(1) == "attempt 1 has handed over at step 10"


def test_a_zombie_rolls_nothing_back() -> None:
    storage, zombie = trained(10, 20)
    started(storage, 2)
    with pytest.raises(FencedError, match="attempt 2"):
        zombie.roll_back(3, "x")
    assert steps(person(storage)) == ([10, 20], [])


def test_to_the_start() -> None:
    storage, first = trained(10, 20)
    first.roll_back(0, "x", skipped=25)
    second = started(storage, 2)
    assert steps(second) == ([], [10, 20])
    assert records.skipped_at(second.state, 0) == 25


@pytest.mark.parametrize(
    ("to", "error"), [(9, "does not contain it any more"), (5, "earlier rollback has left it"), (4, "in quarantine")]
)
def test_targets_that_are_refused(to: int, error: str) -> None:
    storage, first = trained(10, 20, 30)
    first.quarantine((4,))
    first.roll_back(3, "x")
    with pytest.raises(FencedError, match=error if to != 4 else "earlier rollback has left it"):
        person(storage).roll_back(to, "x", by_person=True)
    storage, first = trained(10, 20, 30)
    first.quarantine((4,))
    if to == 4:
        with pytest.raises(FencedError, match=error):
            first.roll_back(to, "x")


def test_a_complete_training_is_not_rolled_back() -> None:
    storage, first = trained(10, 20)
    first.complete(20)
    with pytest.raises(AlreadyCompleteError):
        person(storage).roll_back(3, "x", by_person=True)


def test_skipped_steps_follow_the_branch() -> None:
    """Breaks if an attempt that goes on from a later commit of the new branch meets the bad data again."""
    storage, first = trained(10, 20)
    first.roll_back(3, "x", found=25, skipped=15)
    second = started(storage, 2)
    assert records.skipped_at(second.state, 3) == 15
    second.commit(replace(commit(20, "b"), skipped=15), KEEP)
    new = second.state.commits[-1]
    assert records.skipped_at(second.state, new.seq) == 15
    second.roll_back(3, "again", found=30, skipped=35)
    assert records.skipped_at(started(storage, 3).state, 3) == 35


def test_what_was_left_stays_until_as_many_newer_ones_exist_as_are_kept() -> None:
    storage, first = trained(10, 20, 30)
    first.roll_back(3, "x")
    second = started(storage, 2)
    second.commit(commit(20, "b"), KEEP)
    assert steps(second) == ([10, 20], [20, 30])
    _, retired = second.commit(commit(30, "b"), KEEP)
    assert [c.seq for c in retired] == [4, 5, 3]
    assert steps(second) == ([20, 30], [])


def test_a_pinned_checkpoint_stays() -> None:
    """A person may pin while an attempt trains: the attempt's next commit follows the pin."""
    storage, first = trained(10, 20, 30)
    person(storage).pin((3,))
    first.commit(commit(40), Keep(1))
    assert steps(first) == ([10, 40], [])
    first.hand_over()
    with pytest.raises(FencedError, match="commit 3 is pinned"):
        person(storage).prune((3,))
    person(storage).pin(unpinned=(3,))
    person(storage).prune((3,))
    with pytest.raises(FencedError, match="does not contain commit 3"):
        person(storage).pin((3,))


def test_a_pinned_checkpoint_stays_on_the_branch_that_was_left() -> None:
    storage, first = trained(10, 20, 30)
    person(storage).pin((5,))
    first.roll_back(3, "x")
    second = started(storage, 2)
    second.commit(commit(20, "b"), Keep(1))
    assert steps(second) == ([20], [30])


def test_a_job_that_is_created_anew_without_its_checkpoints_keeps_what_was_left() -> None:
    storage, first = trained(10, 20)
    first.roll_back(3, "x")
    again = CommitLog(storage, identity(1, uid="uid-2"))
    again.own("Never")
    assert sorted(name.step for name in again.state.set_aside) == [10, 20]
    assert (again.state.left, again.state.rollbacks) == ((), ())


def test_a_checkpoint_is_healthy_after_100_clean_steps() -> None:
    _, first = trained()
    for step, clean in ((100, 100), (150, 50), (199, 49), (200, 50)):
        first.commit(commit(step, clean=clean), Keep(9))
    assert [(c.step, c.healthy, c.clean) for c in first.state.commits] == [
        (100, True, 100),
        (150, False, 150),
        (199, False, 199),
        (200, False, 200),
    ]
    first.commit(commit(260, clean=5), Keep(9))  # a step between was not finite
    assert [c.step for c in first.state.commits if c.healthy] == [100]
    first.commit(commit(360, clean=100), Keep(9))
    assert [c.step for c in first.state.commits if c.healthy] == [100, 260]


def test_only_known_losses_make_a_checkpoint_healthy() -> None:
    """Breaks if a program that reports each 1000th loss has healthy checkpoints after the newest one that is known."""
    _, first = trained()
    for step, known in ((850, None), (950, None), (1050, 1000), (1500, 1000), (1999, 1000), (2050, 2000)):
        unknown = 0 if known is None else step - known
        first.commit(replace(commit(step, clean=known), unknown=unknown), Keep(9))
        healthy = [c.step for c in first.state.commits if c.healthy]
        assert healthy == {850: [], 950: [], 2050: [850, 950, 1050, 1500]}.get(step, [850]), step


def test_a_loss_after_a_resume_tells_of_the_steps_before_it_too() -> None:
    """Breaks if a job whose attempts are short, and which reports each 100th loss, never has a healthy checkpoint."""
    _, first = trained()
    for step, clean, unknown in ((150, 100, 50), (250, 50, 50), (350, 50, 50)):  # each attempt begins at the one before
        first.commit(replace(commit(step, clean=clean), unknown=unknown), Keep(9))
    assert [(c.step, c.clean, c.healthy) for c in first.state.commits] == [
        (150, 100, True),
        (250, 200, False),
        (350, 300, False),
    ]


def test_steps_that_nothing_watched_make_nothing_healthy() -> None:
    _, first = trained()
    for step in (100, 300, 500):
        first.commit(commit(step), Keep(9))
    assert not [c for c in first.state.commits if c.healthy]


def test_retention_keeps_the_newest_healthy_one() -> None:
    made = [replace(commit(step), seq=seq, healthy=step <= 20) for seq, step in enumerate((10, 20, 30, 40), 1)]
    assert retire(made, Keep(1)) == (1, 3)
    broken = [replace(c, corrupt=c.step == 20) for c in made]
    assert retire(broken, Keep(1)) == (2, 3)


def test_restore_reads_the_target_and_not_the_branch_that_was_left() -> None:
    """With real manifests and data, and steps that come twice."""
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    for step in (10, 20, 30):
        save(first, step)
    first.log.roll_back(first.log.state.commits[0].seq, "x")
    second = attempt(storage, identity(2))
    assert restore_whole(second).step == 10
    save(second, 20)
    assert restore_whole(attempt(storage, identity(3))).uri.endswith(f"{second.log.state.commits[-1].name}.json")


class Training(RuleBasedStateMachine):
    """Attempts that commit, roll back, hand over and come to life again in any order, on one log.

    The model: `branch`, `left` and `pinned` are names of checkpoints, and `writer` is the only one that may commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.storage = MemoryStorage()
        self.attempts: list[CommitLog] = []
        self.writer: CommitLog | None = None
        self.branch: list[CheckpointName] = []
        self.ever_left: set[CheckpointName] = set()
        self.pinned: set[CheckpointName] = set()
        self.number = 0

    @initialize()
    def begin(self) -> None:
        """The first attempt."""
        self.start()

    @rule()
    def start(self) -> None:
        """A new attempt raises its fence, and sees the present branch."""
        self.writer = started(self.storage, len(self.attempts) + 1)
        self.attempts.append(self.writer)
        assert [c.name for c in self.writer.state.commits] == self.branch

    @rule(pick=st.integers(0, 99), kept=st.integers(1, 3))
    def save(self, pick: int, kept: int) -> None:
        """Any attempt, also a zombie, tries to commit. Numbers of steps repeat."""
        log = self.attempts[pick % len(self.attempts)]
        self.number += 1
        made = commit(pick % 5, f"{self.number:x}")
        if log is not self.writer:
            with pytest.raises(FencedError):
                log.commit(made, Keep(kept))
            return
        log.commit(made, Keep(kept))
        names_left = {c.name for c in log.state.commits}
        assert made.name in names_left
        assert names_left <= {*self.branch, made.name}
        self.branch = [name for name in (*self.branch, made.name) if name in names_left]

    @precondition(lambda self: self.branch)
    @rule(pick=st.integers(0, 99), to=st.integers(0, 99), by_person=st.booleans())
    def roll_back(self, pick: int, to: int, by_person: bool) -> None:
        """A person, or any attempt, goes back to a checkpoint of the branch or to the start."""
        log = person(self.storage) if by_person else self.attempts[pick % len(self.attempts)]
        place = to % (len(self.branch) + 1)
        seq = 0 if place == 0 else person(self.storage).state.commits[place - 1].seq
        if not by_person and log is not self.writer:
            with pytest.raises(FencedError):
                log.roll_back(seq, "x")
            return
        log.roll_back(seq, "x", by_person=by_person)
        self.ever_left |= set(self.branch[place:])
        self.branch, self.writer = self.branch[:place], None

    @rule(pick=st.integers(0, 99))
    def hand_over(self, pick: int) -> None:
        """The writer hands over."""
        if self.writer is not None:
            self.writer.hand_over()
            self.writer = None

    @precondition(lambda self: self.branch)
    @rule(pick=st.integers(0, 99))
    def pin(self, pick: int) -> None:
        """A person pins a checkpoint."""
        found = person(self.storage)
        chosen = found.state.every[pick % len(found.state.every)]
        found.pin((chosen.seq,))
        self.pinned.add(chosen.name)

    @invariant()
    def the_log_is_as_the_model(self) -> None:
        """No checkpoint that was left comes back, and no pinned one goes."""
        state = person(self.storage).state
        if state.seq == 0:
            return
        assert [c.name for c in state.commits] == self.branch
        assert {c.name for c in state.left} <= self.ever_left
        assert not self.ever_left & set(self.branch)
        assert self.pinned <= {c.name for c in state.every}
        assert {name for c in state.every for name in c.names} <= state.names_in_use
        last = records.newest(state)
        assert (last.name if last else None) == (self.branch[-1] if self.branch else None)

    def teardown(self) -> None:
        """The state in the newest record is the state of all records."""
        read = [records.decode(self.storage.content[key], n) for n, key in enumerate(self.storage.keys("log/"), 1)]
        if read:
            assert records.replay(record for record, _ in read) == read[-1][1]
            assert names.log_key(len(read)) in self.storage.content


TestTraining = Training.TestCase
TestTraining.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
