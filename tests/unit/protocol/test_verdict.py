"""The verdict: what a launcher writes, the operator reads; and no container can make the operator fail with one."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocol.strategies import JSON, TEXTS, documents

from holdfast.core.observe.verdict import parse_verdict
from holdfast_protocol import rank_verdict
from holdfast_protocol.document import decode, encode
from holdfast_protocol.hang import Hang
from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_protocol.verdict import MOST_BYTES, Verdict, to_line
from holdfast_train.pod.launcher.hang.blame import facts
from holdfast_train.pod.launcher.verdict import End
from holdfast_train.pod.launcher.verdict import classify as judge

COUNTS = st.none() | st.integers(0, 2**53 - 1)
RANKS = st.builds(
    RankVerdict,
    rank=st.integers(0, 9),
    result=st.sampled_from(["running", "saved", "left", "completed", "failed", "fenced", "misconfigured"]),
    reason=st.sampled_from(["", "two words", "UserException", "OutOfMemory", "Fenced"]),
    message=st.text(max_size=3000),
    step=COUNTS,
    saved_step=COUNTS,
    at=st.floats(0, 1e10),
)
GROUPS = st.dictionaries(st.sampled_from([f"{name} 0" for name in ("gloo", "nccl", "a", "b", "c", "n" * 99)]), COUNTS)
OF_RANK = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 9),
        "state": st.sampled_from(["R", "S", "T", "Z", ""]),
        "collectives": GROUPS.map(lambda all_: {name: {"number": number or 0} for name, number in all_.items()}),
        "stacks": TEXTS,
        "step": COUNTS,
    }
)
ENDS = st.builds(
    End,
    code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    signalled_at=st.none() | st.floats(0, 1e10),
    ranks=st.lists(RANKS, max_size=3, unique_by=lambda one: one.rank).map(tuple),
    last_lines=st.lists(st.text(max_size=600), max_size=25).map(tuple),
    oom_kills=st.integers(0, 3),
    stalled=st.sampled_from(["", "no step for 300 s"]),
    hang=st.lists(OF_RANK, max_size=4).map(facts),
    start_error=st.none() | st.just(("CommandNotFound", "no such file")),
    regrouped_at=st.none() | st.floats(0, 1e10),
    left=st.just(()),
)


# Breaks if a launcher writes what the operator does not read, or more than a kubelet keeps.
@given(ENDS)
def test_the_operator_reads_what_a_launcher_writes(end: End) -> None:
    written = judge(end)
    line = to_line(written)
    assert len(line) <= MOST_BYTES
    found = parse_verdict(line.decode())
    assert found is not None
    if written.reason in ("CommandNotFound", "OutOfMemory", "Stalled", "Fenced"):
        assert found.reason == written.reason
    cut = {"message": found.message, "last_lines": found.last_lines, "reason": found.reason}
    assert replace(written, **cut) == found


# A program prints what it likes. Breaks if the verdict with its last lines is no JSON, or too long for a kubelet.
@pytest.mark.parametrize("printed", ["\u00fc\u20ac\U0001f388" * 100, "half of a character: \udce4", "$(HOME)" * 99])
def test_any_last_lines_become_one_short_line(printed: str) -> None:
    line = to_line(Verdict("failed", "UserException", printed * 99, last_lines=(printed,) * 25))
    assert (len(line) <= MOST_BYTES, line.count(b"\n"), line[-1:]) == (True, 1, b"\n")
    found = parse_verdict(line.decode())
    assert found is not None
    assert (found.outcome, found.message[:4]) == ("failed", printed[:4])


# Breaks if the launcher cannot read a verdict of a rank, of any reason and with any message.
@given(RANKS, st.sampled_from(["", "half of a character: \udce4", "$(HOME)" * 999]))
def test_the_launcher_reads_what_a_rank_writes(one: RankVerdict, said: str) -> None:
    told = replace(one, message=one.message + said, python=said)
    found = rank_verdict.read(rank_verdict.to_text(told))
    kept = {"message": found.message, "python": found.python}
    assert found == replace(one, **kept)
    assert found.message[:9] == told.message.encode("utf-8", "replace").decode()[:9]


# Breaks if a verdict of a newer launcher is taken for none, or one of an older launcher.
@given(
    documents(Verdict),
    st.dictionaries(TEXTS.map(lambda name: f"x{name}"), JSON, max_size=2),
    st.sets(st.sampled_from([*encode(Verdict("failed", exit_code=1, step=2, peer=True))])),
)
def test_a_verdict_of_another_version_of_the_launcher(one: Verdict, more: dict[str, Any], gone: set[str]) -> None:
    known = replace(one, reason="Other")
    newer = {**encode(known), **more}
    if known.hang:
        newer["hang"] = {**encode(known.hang), **more}
    assert decode(Verdict, newer) == known
    older = {name: value for name, value in encode(known).items() if name not in gone - {"outcome"}}
    assert encode(decode(Verdict, older)) == {**encode(Verdict("failed")), **older}


FIELDS = [*encode(Verdict("failed", exit_code=1, signal=1, step=2, saved_step=2, peer=True, hang=Hang()))]


@given(JSON | st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_garbage_is_no_verdict_and_no_crash(content: Any) -> None:
    good = {"v": 1, "outcome": "failed"}
    parse_verdict(json.dumps({**good, **content} if isinstance(content, dict) else content))


def test_the_limits_of_a_hang_hold_on_both_sides() -> None:
    groups = {f"group-{number} 0" + "x" * 99: {"number": number} for number in range(9)}
    ranks = [
        {"rank": 0, "state": "S", "collectives": {f"{n} 0": {"number": 1} for n in "abcdefg"} | groups, "stacks": ""}
    ]
    found = parse_verdict(to_line(replace(judge(End(None, 9, None)), hang=facts(ranks))).decode())
    assert found is not None
    assert found.hang == Hang(entered={"a 0": 1, "b 0": 1, "c 0": 1, "d 0": 1})
