"""The call of a member: each side reads what the other one writes, of any version, and follows no nonsense."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocol.strategies import JSON, TEXTS, documents

from holdfast_protocol.document import DocumentError, encode, read_json, to_text
from holdfast_protocol.member import MemberOrder, MemberReport, read_order, read_report
from holdfast_protocol.verdict import Verdict

READY = MemberReport("pod-1", 3, "ready", "10.0.0.9", 5)
RUNNING = MemberReport("pod-1", 3, "running")
START = {"do": "start", "attempt": 4, "address": "10.0.0.1", "port": 4711}
VERDICTS = st.builds(
    Verdict, st.sampled_from(["completed", "failed"]), message=TEXTS, step=st.none() | st.integers(0, 9)
)
REPORTS = st.builds(
    MemberReport,
    pod_uid=st.from_regex("[a-z0-9-]{1,64}", fullmatch=True),
    attempt=st.integers(0, 9),
    state=st.sampled_from(["ready", "running"]),
    address=st.sampled_from(["", "10.0.0.1", "fd00::1"]),
    port=st.integers(1, 65535),
    verdict=st.none() | VERDICTS,
    imports=st.lists(st.sampled_from(["torch", "numpy"]), max_size=3).map(tuple),
)
MORE = st.dictionaries(TEXTS.map(lambda name: f"x{name}"), JSON, max_size=3)


# Breaks if the operator refuses what a launcher tells, or a field that only a newer launcher knows.
@given(REPORTS, MORE)
def test_the_operator_reads_what_a_launcher_tells(told: MemberReport, more: dict[str, Any]) -> None:
    assert read_report({**read_json(to_text(told)), **more}) == told


# Breaks if a launcher of an older version cannot report, or gets other values than the defaults.
@given(REPORTS, st.sets(st.sampled_from(["address", "verdict", "imports", "version"])))
def test_fields_that_an_older_launcher_does_not_know_have_their_defaults(told: MemberReport, gone: set[str]) -> None:
    older = {name: value for name, value in encode(told).items() if name not in gone}
    assert encode(read_report(older)) == {**encode(MemberReport("x", 0, "ready")), **older}


# Breaks if a launcher does not follow what an operator of another version orders.
@given(st.sampled_from([START, {**START, "predecessor": 3}, {"do": "leave"}, {"do": "wait"}]), MORE)
def test_a_launcher_reads_what_an_operator_orders(order: dict[str, Any], more: dict[str, Any]) -> None:
    found = read_order({**order, **more}, READY)
    assert read_order(read_json(to_text(found)), READY) == found
    assert encode(found).items() >= order.items()


@given(documents(MemberOrder), st.sampled_from([READY, RUNNING]))
def test_any_order_is_followed_or_refused_with_words(order: MemberOrder, report: MemberReport) -> None:
    try:
        assert read_order(encode(order), report) == order
    except DocumentError as error:
        assert "; allowed: " in str(error)


@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(encode(READY), JSON)))
def test_garbage_is_read_or_refused_with_words(content: Any) -> None:
    for read in (read_report, lambda given: read_order(given, READY)):
        try:
            read(json.loads(json.dumps(content)))
        except DocumentError as error:
            assert "; allowed: " in str(error)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"port": 0}, "port is 0; allowed: from 1 to 65535, of a launcher that is ready"),
        ({"state": "over"}, "state is 'over'; allowed: ready or running"),
        ({"verdict": {"v": 2, "outcome": "other"}}, "verdict.v is 2; allowed: at most 1: use an operator and an image"),
        ({"verdict": {"outcome": "failed", "lastLines": ["x" * 4000] * 2}}, "allowed: at most 4096 bytes"),
        ({"version": 2, "state": "over"}, "version is 2; allowed: at most 1: use an operator and an image whose"),
        ({"imports": ["os; x"]}, "imports is ['os; x']; allowed: a list of at most 32 texts"),
    ],
)
def test_reports_that_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DocumentError) as found:
        read_report({**encode(READY), **changes})
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("report", "answer", "words"),
    [
        (READY, None, "the document is None; allowed: an object"),
        (READY, {}, "do is None; allowed: a value"),
        (READY, {"do": "regroup", "attempt": 4}, "do is 'regroup'; allowed: start or leave or wait, for a launcher"),
        (READY, {**START, "attempt": 3}, "attempt is 3; allowed: above 3"),
        (READY, {**START, "attempt": "4"}, "attempt is '4'; allowed: a whole number"),
        (READY, {**START, "address": ""}, "address is ':4711'; allowed: an address and a port from 1"),
        (READY, {**START, "port": 0}, "address is '10.0.0.1:0'; allowed: an address and a port from 1"),
        (READY, {**START, "port": 1 << 16}, "port is 65536; allowed"),
        (READY, {**START, "predecessor": 4}, "predecessor is 4; allowed: from 1 to 3"),
        (RUNNING, START, "do is 'start'; allowed: regroup or wait, for a launcher that is running"),
        (RUNNING, {"do": "leave"}, "do is 'leave'; allowed: regroup or wait"),
        (RUNNING, {"do": "regroup", "attempt": 3}, "attempt is 3; allowed: above 3"),
        (RUNNING, {"do": "regroup", "attempt": 4, "version": 2}, "version is 2; allowed: at most 1"),
    ],
)
def test_orders_that_are_not_followed(report: MemberReport, answer: Any, words: str) -> None:
    with pytest.raises(DocumentError) as found:
        read_order(answer, report)
    assert words in str(found.value)


def test_orders_that_are_followed() -> None:
    assert read_order(START, READY) == MemberOrder("start", 4, "10.0.0.1", 4711)
    assert read_order({"do": "regroup", "attempt": 4, "final": True}, RUNNING) == MemberOrder("regroup", 4, final=True)
