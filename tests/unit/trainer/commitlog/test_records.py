"""The pure commit log: its owner, the attempts that may commit or have to wait, and what is kept."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer.stores import identity

from holdfast_train.commitlog import records as log
from holdfast_train.commitlog import rules
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    FencedError,
    HoldfastTrainError,
    StoragePrefixInUseError,
)
from holdfast_train.format import names as names_module
from holdfast_train.format.names import CheckpointName

AT = "2026-01-01T00:00:00.000+00:00"


def commit(seq: int, step: int = 0, *, at: str = AT, corrupt: bool = False) -> log.Commit:
    return log.Commit(seq, step, 1, at, CheckpointName(step, 1, f"{seq:x}"), "00", 10, corrupt)


def chain(*records: tuple[log.Kind, Identity, dict[str, Any]]) -> log.LogState:
    state = log.LogState()
    for number, (kind, who, more) in enumerate(records):
        state = log.apply(state, log.draft(state, kind, who, f"n{number}", AT, **more))
    return state


A1, A2, A3 = identity(1), identity(2), identity(3)
ANEW = identity(1, uid="uid-2")
OTHER = identity(1, uid="uid-3", job="other")
OWNED = chain(("owner", A1, {}))
FENCED = chain(("owner", A1, {}), ("fence", A1, {}))
COMMITTED = chain(("owner", A1, {}), ("fence", A1, {}), ("commit", A1, {"commit": commit(0, 100)}))
TAKEN = chain(
    ("owner", A1, {}),
    ("fence", identity(7), {}),
    ("commit", identity(7), {"commit": commit(0, 100)}),
    ("takeover", ANEW, {"resume": "Auto"}),
)
REFUSED = replace(TAKEN, commits=(), set_aside=(CheckpointName(100, 1, "0"),))
COMPLETE = chain(("owner", A1, {}), ("fence", A1, {}), ("complete", A1, {"step": 5}))
HANDED = log.apply(COMMITTED, log.draft(COMMITTED, "handover", A1, "h", AT, step=100))


@pytest.mark.parametrize(
    ("state", "who", "result"),
    [
        (log.LogState(), A1, "owner"),
        (OWNED, A1, None),
        (OWNED, A2, None),
        (OWNED, ANEW, "takeover"),
        (OWNED, OTHER, StoragePrefixInUseError),
        (TAKEN, ANEW, None),
        (TAKEN, A1, FencedError),  # the job before the re-creation must not take over back
    ],
)
def test_ownership(state: log.LogState, who: Identity, result: object) -> None:
    if isinstance(result, type) and issubclass(result, HoldfastTrainError):
        with pytest.raises(result):
            rules.ownership_record(state, who)
    else:
        assert rules.ownership_record(state, who) == result


@pytest.mark.parametrize(
    ("state", "who", "error"),
    [
        (OWNED, A1, None),
        (FENCED, A2, None),
        (FENCED, A1, None),  # the same pod once more: torchrun has restarted its workers
        (FENCED, identity(1, pod="another"), FencedError),
        (chain(("owner", A1, {}), ("fence", A2, {})), A1, FencedError),
        (TAKEN, ANEW, None),  # attempt 1 after attempt 7 of the job before: numbers do not cross a takeover
        (TAKEN, identity(8), FencedError),
        (COMPLETE, A2, AlreadyCompleteError),
        (HANDED, A2, None),
        (HANDED, A1, None),  # torchrun has restarted its workers, and no successor was faster
    ],
)
def test_fence(state: log.LogState, who: Identity, error: type[HoldfastTrainError] | None) -> None:
    if error is None:
        rules.check_may_fence(state, who)
    else:
        with pytest.raises(error):
            rules.check_may_fence(state, who)


def test_only_the_newest_fence_commits() -> None:
    mine = FENCED.fence
    assert mine is not None
    rules.check_may_write(FENCED, A1, mine)
    later = log.apply(FENCED, log.draft(FENCED, "fence", A2, "later", AT))
    with pytest.raises(FencedError, match="attempt 2"):
        rules.check_may_write(later, A1, mine)
    again = log.apply(FENCED, log.draft(FENCED, "fence", A1, "again", AT))  # the same pod's next process
    with pytest.raises(FencedError):
        rules.check_may_write(again, A1, mine)
    with pytest.raises(FencedError):
        rules.check_may_write(TAKEN, A1, mine)
    with pytest.raises(AlreadyCompleteError, match="step 5"):
        rules.check_may_write(COMPLETE, A1, replace(mine, nonce=COMPLETE.fence.nonce if COMPLETE.fence else ""))


def test_nothing_is_committed_after_a_handover() -> None:
    assert (HANDED.handed_over, HANDED.commits, HANDED.fence) == (True, COMMITTED.commits, COMMITTED.fence)
    mine = HANDED.fence
    assert mine is not None
    with pytest.raises(FencedError, match="attempt 1 has handed over"):
        rules.check_may_write(HANDED, A1, mine)


@pytest.mark.parametrize(("kind", "who"), [("fence", A2), ("fence", A1), ("takeover", ANEW)])
def test_handover_is_over_with_the_next_writer(kind: log.Kind, who: Identity) -> None:
    after = log.apply(
        HANDED, log.draft(HANDED, kind, who, "n", AT, **({"resume": "Auto"} if kind == "takeover" else {}))
    )
    assert not after.handed_over
    if after.fence is not None:
        rules.check_may_write(after, who, after.fence)


BY_A2 = log.apply(COMMITTED, log.draft(COMMITTED, "fence", A2, "f2", AT))
FRESH_HANDED = log.apply(FENCED, log.draft(FENCED, "handover", A1, "h", AT))
HANDED_TO_A2 = log.apply(HANDED, log.draft(HANDED, "fence", A2, "f2", AT))
HANDED_ON = log.apply(HANDED_TO_A2, log.draft(HANDED_TO_A2, "handover", A2, "h2", AT, step=100))


@pytest.mark.parametrize(
    ("state", "who", "predecessor", "reason"),
    [
        (log.LogState(), A2, 1, None),  # the predecessor has not written anything yet
        (OWNED, A2, 1, None),
        (FENCED, A2, 1, None),
        (COMMITTED, A2, 1, None),
        (HANDED, A2, 1, "attempt 1 has handed over at step 100"),
        (FRESH_HANDED, A2, 1, "attempt 1 has handed over"),
        (HANDED, A3, 2, None),  # that of an attempt before the predecessor, which has yet to raise its fence
        (HANDED_TO_A2, A3, 1, None),  # another attempt trains now, although this one has handed over
        (HANDED_TO_A2, A3, 2, None),
        (HANDED_ON, A3, 1, "attempt 2 has handed over at step 100"),
        (BY_A2, A2, 1, "attempt 2 has raised its fence already"),  # our own: torchrun has restarted its workers
        (BY_A2, identity(2, pod="another"), 1, "attempt 2 has raised its fence already"),
        (chain(("owner", A1, {}), ("fence", A3, {})), A2, 1, "attempt 3 has raised its fence already"),
        (COMPLETE, A2, 1, None),  # the predecessor may still export its model: the operator knows when it is gone
        (HANDED, identity(2, uid="uid-3", job="other"), 1, "the owner of the checkpoint prefix has changed"),
        (TAKEN, A2, 1, "the owner of the checkpoint prefix has changed"),
        # The job was made again, and its first attempt has not come so far as to take over: what is there is not its.
        (COMPLETE, identity(2, uid="uid-2"), 1, None),
        (HANDED, identity(2, uid="uid-2"), 1, None),
    ],
)
def test_the_reason_to_pass_the_fence(state: log.LogState, who: Identity, predecessor: int, reason: str | None) -> None:
    assert rules.reason_to_pass_fence(state, who, predecessor) == reason


MANY = chain(
    ("owner", A1, {}),
    ("fence", A1, {}),
    *(("commit", A1, {"commit": commit(0, step)}) for step in (10, 20, 30)),
)  # commits 3, 4, 5
DONE = log.apply(MANY, log.draft(MANY, "complete", A1, "c", AT, step=30))
GONE = log.apply(MANY, log.draft(MANY, "handover", A1, "h", AT, step=30))
ANOTHER = log.apply(MANY, log.draft(MANY, "takeover", ANEW, "t", AT, resume="Auto"))
BROKEN = replace(GONE, commits=(*GONE.commits[:2], replace(GONE.commits[2], corrupt=True)))


@pytest.mark.parametrize(
    ("state", "fence"),
    [(OWNED, None), (FENCED, 1), (COMMITTED, 1), (HANDED, None), (COMPLETE, None), (TAKEN, None), (MANY, 1)],
)
def test_the_attempts_that_may_still_commit(state: log.LogState, fence: int | None) -> None:
    found = rules.possible_writer(state)
    assert (found.attempt if found else None) == fence


@pytest.mark.parametrize(
    ("state", "retired", "error"),
    [
        (DONE, (3, 4), None),
        (GONE, (3, 4), None),
        (GONE, (), None),
        (ANOTHER, (3,), None),
        (MANY, (3,), "attempt 1 .* may be training"),
        (log.apply(GONE, log.draft(GONE, "fence", A2, "f", AT)), (3,), "attempt 2 .* may be training"),
        (GONE, (5,), "commit 5 is the newest intact one"),
        (GONE, (3, 9), "does not contain commit 9"),
        (BROKEN, (3, 5), None),
        (BROKEN, (4,), "commit 4 is the newest intact one"),
    ],
)
def test_prune(state: log.LogState, retired: tuple[int, ...], error: str | None) -> None:
    """Breaks if a person may drop commits that an attempt may read, or the one that the next would go on from."""
    with nullcontext() if error is None else pytest.raises(FencedError, match=error):
        rules.check_may_prune(state, retired)


def test_a_prune_drops_commits_and_nothing_else() -> None:
    record = log.draft(DONE, "prune", identity(0), "p", AT, retired=(3, 4))
    after = log.apply(DONE, record)
    assert after == replace(DONE, seq=7, commits=DONE.commits[2:])
    assert log.decode(log.encode(DONE, record), 7) == (record, after)


def test_quarantine_and_back() -> None:
    record = log.draft(MANY, "quarantine", A1, "q", AT, corrupt=(4, 5, 9))
    after = log.apply(MANY, record)
    assert [(c.seq, c.corrupt) for c in after.commits] == [(3, False), (4, True), (5, True)]
    assert log.decode(log.encode(MANY, record), 6) == (record, after)
    assert (log.newest(MANY), log.newest(after)) == (MANY.commits[2], MANY.commits[0])
    back = log.draft(after, "quarantine", A1, "q", AT, corrupt=(3,), intact=(5,))
    assert [(c.seq, c.corrupt) for c in log.apply(after, back).commits] == [(3, True), (4, True), (5, False)]
    assert log.decode(log.encode(after, back), 7) == (back, log.apply(after, back))


def test_a_handover_names_what_the_next_attempt_goes_on_from() -> None:
    broken = log.apply(MANY, log.draft(MANY, "quarantine", A1, "q", AT, corrupt=(5,)))
    handed = log.apply(broken, log.draft(broken, "handover", A1, "h", AT))
    assert rules.reason_to_pass_fence(handed, A2, 1) == "attempt 1 has handed over at step 20"


@pytest.mark.parametrize(
    ("state", "intact", "error"),
    [
        (BROKEN, (5,), None),
        (DONE, (5,), None),
        (MANY, (5,), "attempt 1 .* may be training"),
        (BROKEN, (9,), "does not contain commit 9"),
    ],
)
def test_a_person_takes_back(state: log.LogState, intact: tuple[int, ...], error: str | None) -> None:
    with nullcontext() if error is None else pytest.raises(FencedError, match=error):
        rules.check_may_release(state, intact)


def test_takeover_keeps_or_sets_aside() -> None:
    assert [c.step for c in TAKEN.commits] == [100]
    never = chain(
        ("owner", A1, {}),
        ("fence", A1, {}),
        ("commit", A1, {"commit": commit(0, 100)}),
        ("takeover", ANEW, {"resume": "Never"}),
    )
    assert never.commits == ()
    assert never.set_aside == (CheckpointName(100, 1, "0"),)  # a person may still need them: nothing deletes them
    assert never.fence is None
    after_complete = log.apply(COMPLETE, log.draft(COMPLETE, "takeover", ANEW, "t", AT, resume="Auto"))
    assert after_complete.complete is None


@pytest.mark.parametrize("kind", ["takeover", "fence", "quarantine", "commit", "handover", "complete"])
def test_first_record_is_the_owner(kind: log.Kind) -> None:
    with pytest.raises(CheckpointCorruptError):
        log.apply(log.LogState(), log.draft(log.LogState(), kind, A1, "n", AT))


def test_gap_in_the_log_is_corruption() -> None:
    with pytest.raises(CheckpointCorruptError):
        log.apply(OWNED, replace(log.draft(OWNED, "fence", A1, "n", AT), seq=7))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"1", b'{"v":3,"seq":1,"kind":"owner"}', b"\xff", b'{"v":1,"seq":2}']
)
def test_records_that_are_none(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError):
        log.decode(data, 1)


@pytest.mark.parametrize(
    ("key", "seq"),
    [
        ("log/000000000012.json", 12),
        ("log/12.json", None),
        ("log/00000000001x.json", None),
        ("log/000000000012.json.tmp", None),
        ("data/000000000012.json", None),
    ],
)
def test_log_seq(key: str, seq: int | None) -> None:
    assert names_module.log_seq(key) == seq


def test_metric_survives_the_log() -> None:
    with_one = replace(commit(3, 100), metric_name="loss", metric="2.113")
    record = log.draft(FENCED, "commit", A1, "n", AT, commit=with_one)
    data = log.encode(FENCED, record)
    assert log.decode(data, 3) == (record, log.apply(FENCED, record))


def may_fence(state: log.LogState, who: Identity) -> bool:
    try:
        rules.check_may_fence(state, who)
    except (FencedError, AlreadyCompleteError):
        return False
    return True


def may_commit(state: log.LogState, who: Identity, fence: log.Fence) -> bool:
    try:
        rules.check_may_write(state, who, fence)
    except (FencedError, AlreadyCompleteError):
        return False
    return True


WRITERS = [identity(a, uid=u, pod=f"{u}-{a}") for u in ("uid-1", "uid-2") for a in (1, 2, 3)]
steps = st.lists(
    st.tuples(
        st.sampled_from(range(len(WRITERS))),
        st.sampled_from(["start", "commit", "quarantine", "release", "handover", "complete"]),
    ),
    max_size=40,
)


@given(steps, st.sampled_from(["Auto", "Never"]))
def test_histories(actions: list[tuple[int, str]], resume: str) -> None:
    """Whatever the order of writers: attempts never go back within one owner, commits are of the newest fence and none
    comes after its handover, the state in the newest record is the state of all records, a former owner never returns,
    and a hold ends only where nobody else may commit any more, or where its end is an error."""
    state = log.LogState()
    records: list[log.Record] = []
    fences: dict[int, log.Fence] = {}
    owners: list[str] = []
    handed_over: set[str] = set()

    def append(kind: log.Kind, who: Identity, **more: Any) -> log.Record:
        nonlocal state
        record = log.draft(state, kind, who, f"n{len(records)}", AT, **more)
        data = log.encode(state, record)
        decoded, after = log.decode(data, record.seq)
        assert decoded == (replace(record, commit=replace(record.commit, seq=record.seq)) if record.commit else record)
        state = log.apply(state, record)
        assert after == state
        records.append(record)
        return record

    for number, action in actions:
        who = WRITERS[number]
        try:
            if action == "start":
                kind = rules.ownership_record(state, who)
                if kind is not None:
                    append(kind, who, **({"resume": resume} if kind == "takeover" else {}))
                    assert who.job_uid not in owners
                    owners.append(who.job_uid)
                rules.check_may_fence(state, who)
                before = state.fence
                assert before is None or before.attempt <= who.attempt
                record = append("fence", who)
                fences[number] = log.Fence(record.seq, who.attempt, who.pod_uid, record.nonce)
            elif number in fences:
                rules.check_may_write(state, who, fences[number])
                assert state.fence == fences[number]
                assert fences[number].nonce not in handed_over
                if action == "commit":
                    append("commit", who, commit=commit(0, len(records)))
                elif action in ("quarantine", "take back"):
                    newest, names = tuple(c.seq for c in state.commits[-1:]), [c.name for c in state.commits]
                    append("quarantine", who, **{"corrupt" if action == "quarantine" else "intact": newest})
                    assert [c.name for c in state.commits] == names
                    assert {c.corrupt for c in state.commits[-1:]} <= {action == "quarantine"}
                elif action == "handover":
                    append("handover", who, step=len(records) if state.commits else None)
                    handed_over.add(fences[number].nonce)
                else:
                    append("complete", who, step=3)
        except (FencedError, AlreadyCompleteError):
            pass
        for waiting in WRITERS:
            if rules.reason_to_pass_fence(state, waiting, 1) is not None and may_fence(state, waiting):
                others = {n: f for n, f in fences.items() if WRITERS[n] != waiting}
                assert not [n for n, f in others.items() if may_commit(state, WRITERS[n], f)]
    assert log.replay(records) == state
    assert [c.seq for c in state.commits] == sorted(c.seq for c in state.commits)
