"""Orphans: what is deleted, and that no zombie causes a deletion of the bytes of a commit."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.trainer.stores import identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records, retention, rules
from holdfast_train.commitlog.orphans import ORPHAN_SECONDS, orphans
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    FencedError,
    StoragePrefixInUseError,
)
from holdfast_train.format.names import CheckpointName

AT = "2026-01-01T00:00:00.000+00:00"


def named(text: str) -> CheckpointName:
    name = CheckpointName.parse(text)
    assert name is not None
    return name


OLD, YOUNG = ORPHAN_SECONDS + 1, ORPHAN_SECONDS - 1
FENCE = records.Fence(9, 3, "pod", "n")
USES = (records.Use(named("000000000050-a2-dd"), 1),)
STATE = records.LogState(
    seq=12,
    owner=records.Owner(1, "ns", "job", "uid-1"),
    fence=FENCE,
    commits=(records.Commit(10, 100, 2, AT, named("000000000100-a2-aa"), "00", 2, uses=USES),),
    set_aside=(named("000000000050-a2-bb"),),
)


@pytest.mark.parametrize(
    ("name", "age", "changes", "goes"),
    [
        ("000000000100-a2-cc", OLD, {}, True),
        ("000000000100-a2-cc", YOUNG, {}, True),  # a volume may have no room for it and for the next checkpoint
        ("000000000100-a2-aa", OLD, {}, False),  # committed
        ("000000000050-a2-bb", OLD, {}, False),  # set aside
        ("000000000050-a2-dd", OLD, {}, False),  # shared data that a commit uses
        ("000000000050-a2-dd", OLD, {"commits": ()}, True),
        ("000000000050-a2-ee", OLD, {}, True),
        ("000000000050-a2-ee", OLD, {"set_aside_data": (named("000000000050-a2-ee"),)}, False),
        ("000000000100-a3-cc", OLD, {}, False),  # our own attempt lives
        ("000000000100-a3-cc", OLD, {"complete": 100}, True),
        ("000000000100-a3-cc", YOUNG, {"complete": 100}, False),
        ("000000000100-a2-aa", OLD, {"complete": 100}, False),
        ("000000000100-a4-cc", OLD, {}, False),  # there can be no such attempt
        ("000000000100-a4-cc", OLD, {"complete": 100}, False),
        ("000000000100-a4-cc", OLD, {"former": ("uid-0",)}, True),  # of the job that was deleted
        ("000000000100-a4-cc", YOUNG, {"former": ("uid-0",)}, False),
        (
            "000000000100-a3-cc",
            OLD,
            {"former": ("uid-0",)},
            False,
        ),  # of that attempt or of this one: the name does not show it
        ("000000000100-a2-cc", OLD, {"handed_over": True}, False),
        ("000000000100-a2-cc", OLD, {"fence": records.Fence(11, 4, "other", "m")}, False),
        ("000000000100-a2-cc", OLD, {"fence": replace(FENCE, nonce="m")}, False),  # our pod's next process
        ("000000000100-a2-cc", OLD, {"fence": None}, False),
    ],
)
def test_what_goes(name: str, age: float, changes: dict[str, object], goes: bool) -> None:
    state = replace(STATE, **changes)  # type: ignore[arg-type]
    assert orphans({named(name): age}, state, FENCE) == (frozenset({named(name)}) if goes else frozenset())


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("000000000100-a3-cc", True),
        ("000000000100-a2-aa", False),
        ("000000000050-a2-bb", False),
        ("000000000050-a2-dd", False),
    ],
)
def test_what_its_own_process_has_dropped_goes_at_once(name: str, goes: bool) -> None:
    """But never what a commit names: one that was given up may have been committed, its answer lost."""
    found = orphans({named(name): 0.0}, STATE, FENCE, dropped={named(name)})
    assert (named(name) in found) is goes
    assert orphans({}, STATE, FENCE, dropped={named(name)}) == frozenset()


def test_limit() -> None:
    state = replace(STATE, complete=100)
    assert orphans({named("000000000100-a3-cc"): 11.0}, state, FENCE, limit=10.0)
    assert not orphans({named("000000000100-a3-cc"): 10.0}, state, FENCE, limit=10.0)


@dataclass
class Process:
    """One trainer, or the next one of the same pod. It runs for any time, and waits for no other process.

    `seen`: the log as it knows it. `listed`: names and ages as it has listed them; `proven`: whether a record of its
    own was appended since then, and `over` what it had dropped by then. `fresh`: the name of shared data that each save
    has written, and `kept`: the one that it uses again.
    """

    number: int
    uid: str
    pod: str
    seen: records.LogState
    fence: records.Fence
    saves: list[CheckpointName] = field(default_factory=list)  # begun, neither committed nor given up
    fresh: dict[CheckpointName, CheckpointName] = field(default_factory=dict)
    kept: dict[CheckpointName, CheckpointName] = field(default_factory=dict)
    dropped: set[CheckpointName] = field(default_factory=set)
    over: set[CheckpointName] = field(default_factory=set)
    listed: dict[CheckpointName, float] | None = None
    proven: bool = False


class Zombies(RuleBasedStateMachine):
    """Processes of several attempts and jobs on one prefix. None ever ends: each may write, commit and sweep for ever.

    A process reads the log only when it appends, and may have any of its steps done late. What must hold: no commit and
    nothing set aside loses its bytes, and no save that can still be committed does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = records.LogState()
        self.uids = ["uid-1"]
        self.attempt = 0
        self.processes: list[Process] = []
        self.stored: dict[str, float] = {}  # name -> when it was written
        self.now = 0.0
        self.count = 0
        self.shared: list[CheckpointName] = []  # names of shared data that a checkpoint has used, oldest first

    def fresh(self) -> str:
        self.count += 1
        return f"{self.count:x}"

    def pick(self, data: st.DataObject, several: list[Process]) -> Process:
        """One of the last few: a history of two writers that get in each other's way says more than one of twenty."""
        back = data.draw(st.sampled_from([0, 0, 0, 1, 2]), "processes back from the newest")
        return several[max(0, len(several) - 1 - back)]

    def who(self, number: int, uid: str, pod: str) -> records.Identity:
        return identity(number, uid=uid, pod=pod)

    def append(self, kind: records.Kind, who: records.Identity, **more: object) -> records.Record:
        record = records.draft(self.state, kind, who, self.fresh(), AT, **more)
        self.state = records.apply(self.state, record)
        return record

    def begin(self, number: int, uid: str, pod: str, resume: str = "Auto") -> None:
        """A process starts, as `CommitLog.own` and `raise_fence` do; nothing if it may not."""
        who = self.who(number, uid, pod)
        try:
            if (kind := rules.ownership_record(self.state, who)) is not None:
                self.append(kind, who, **({"resume": resume} if kind == "takeover" else {}))
            rules.check_may_fence(self.state, who)
        except (FencedError, AlreadyCompleteError, StoragePrefixInUseError):
            return
        record = self.append("fence", who)
        fence = records.Fence(record.seq, number, pod, record.nonce)
        self.processes.append(Process(number, uid, pod, self.state, fence))

    @precondition(lambda self: len(self.processes) < 6)
    @rule()
    def next_attempt(self) -> None:
        self.attempt += 1
        self.begin(self.attempt, self.uids[-1], f"{self.uids[-1]}-{self.attempt}")

    @precondition(lambda self: self.processes and len(self.processes) < 6)
    @rule()
    def restart_in_the_same_pod(self) -> None:
        last = self.processes[-1]
        self.begin(last.number, last.uid, last.pod)

    @precondition(lambda self: len(self.uids) < 3 and self.state.commits)
    @rule(resume=st.sampled_from(["Auto", "Never"]))
    def job_is_created_anew(self, resume: str) -> None:
        self.uids.append(f"uid-{len(self.uids) + 1}")
        self.attempt = 1
        self.begin(1, self.uids[-1], f"{self.uids[-1]}-1", resume)

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        self.written(self.pick(data, self.processes), data)

    @precondition(lambda self: any(one.saves for one in self.processes))
    @rule(data=st.data(), last=st.integers(1, 2), known=st.booleans())
    def commit(self, data: st.DataObject, last: int, known: bool) -> None:
        one = self.pick(data, [p for p in self.processes if p.saves])
        self.committed(one, one.saves.pop(data.draw(st.integers(0, len(one.saves) - 1), "save")), last, known)

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), last=st.integers(1, 2), listing=st.booleans())
    def save(self, data: st.DataObject, last: int, listing: bool) -> None:
        """A save without anything in between, as most are."""
        one = self.pick(data, self.processes)
        if listing:
            self.look(one)
        name = self.written(one, data)
        one.saves.remove(name)
        self.committed(one, name, last, known=True)

    def written(self, one: Process, data: st.DataObject) -> CheckpointName:
        """A save writes data. It may share some: new data, or any that a checkpoint has used, also a retired one."""
        name = CheckpointName(self.count, one.number, self.fresh())
        self.stored[name] = self.now
        if data.draw(st.booleans(), "new data to share"):
            shared = one.fresh[name] = CheckpointName(self.count, one.number, self.fresh())
            self.stored[shared] = self.now
        if self.shared and data.draw(st.booleans(), "shared data used again"):
            one.kept[name] = self.shared[-1 - data.draw(st.integers(0, min(2, len(self.shared) - 1)), "back")]
        one.saves.append(name)
        self.now += 11.0
        return name

    def committed(self, one: Process, name: CheckpointName, last: int, known: bool) -> None:
        """Commit a save, if its process may. With `known` false the answer is lost, and the process gives it up."""
        who = self.who(one.number, one.uid, one.pod)
        try:
            rules.check_may_write(self.state, who, one.fence)
        except (FencedError, AlreadyCompleteError):
            return
        fresh = one.fresh.get(name)
        uses = tuple(records.Use(use, 1) for use in (fresh, one.kept.get(name)) if use is not None)
        added = records.Commit(self.state.seq + 1, self.count, one.number, AT, name, "00", 1, uses=uses)
        try:
            rules.check_may_use(self.state, added, () if fresh is None else (fresh,))
        except CheckpointCorruptError:
            self.dropped(one, name)
            return
        self.shared += [] if fresh is None else [fresh]
        gone = retention.retire((*self.state.commits, added), Keep(last=last))
        retired = {name for c in self.state.commits if c.seq in gone for name in c.names}
        self.append("commit", who, commit=added, retired=gone)
        if known:
            one.dropped |= retired
            self.proven(one)
        else:
            self.dropped(one, name)

    def dropped(self, one: Process, name: CheckpointName) -> None:
        """The process gives up the save `name`, as `Upload.run` does."""
        one.dropped |= {name, one.fresh.get(name, name)}

    @precondition(lambda self: self.processes and self.state.commits)
    @rule(data=st.data(), back=st.booleans())
    def quarantine(self, data: st.DataObject, back: bool) -> None:
        """A process has read a checkpoint and found it broken, or whole after all. Nothing is deleted for that."""
        one = self.pick(data, self.processes)
        try:
            rules.check_may_write(self.state, self.who(one.number, one.uid, one.pod), one.fence)
        except (FencedError, AlreadyCompleteError):
            return
        seq = data.draw(st.sampled_from([c.seq for c in self.state.commits]), "commit")
        self.append("quarantine", self.who(one.number, one.uid, one.pod), **{"intact" if back else "corrupt": (seq,)})
        self.proven(one)

    def proven(self, one: Process) -> None:
        one.seen, one.over, one.proven = self.state, set(one.dropped), True

    def look(self, one: Process) -> None:
        one.listed = {name: self.now - at for name, at in self.stored.items()}
        one.proven = False

    @precondition(lambda self: any(one.saves for one in self.processes))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        one = self.pick(data, [p for p in self.processes if p.saves])
        self.dropped(one, one.saves.pop())

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def list_names(self, data: st.DataObject) -> None:
        self.look(self.pick(data, self.processes))

    @precondition(lambda self: any(one.proven and one.listed for one in self.processes))
    @rule(data=st.data())
    def sweep(self, data: st.DataObject) -> None:
        one = self.pick(data, [p for p in self.processes if p.proven and p.listed])
        for name in orphans(one.listed or {}, one.seen, one.fence, dropped=one.over, limit=10.0):
            self.stored.pop(name, None)

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), kind=st.sampled_from(["handover", "complete", None, None, None, None]))
    def leave(self, data: st.DataObject, kind: records.Kind | None) -> None:
        if kind is None:
            return  # most go on for long
        one = self.pick(data, self.processes)
        who = self.who(one.number, one.uid, one.pod)
        try:
            rules.check_may_write(self.state, who, one.fence)
        except (FencedError, AlreadyCompleteError):
            return
        self.append(kind, who, step=1)
        self.proven(one)

    @invariant()
    def commits_have_their_bytes(self) -> None:
        assert self.state.names_in_use <= self.stored.keys()
        assert {use.name for commit in self.state.commits for use in commit.uses} <= self.state.names_in_use

    @invariant()
    def what_can_still_be_committed_has_its_bytes(self) -> None:
        for one in self.processes:
            try:
                rules.check_may_write(self.state, self.who(one.number, one.uid, one.pod), one.fence)
            except (FencedError, AlreadyCompleteError):
                continue
            assert set(one.saves) <= self.stored.keys()
            assert {one.fresh[name] for name in one.saves if name in one.fresh} <= self.stored.keys()


TestZombies = Zombies.TestCase
TestZombies.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@pytest.mark.thorough
class TestZombiesLonger(Zombies.TestCase):
    """The same with 300 courses of events."""

    settings = settings(TestZombies.settings, max_examples=300)
