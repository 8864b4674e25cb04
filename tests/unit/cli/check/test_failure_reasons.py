"""Reasons in failure.rules that never fit: a rule with a wrong word is not noticed before it is needed."""

import pytest

from holdfast.api.failure import Failure
from holdfast_cli.check.failure_reasons import FAILURES, check_reasons
from holdfast_cli.check.findings import Report


def warned(*reasons: str) -> list[str]:
    report = Report("job")
    rules = [{"exitCodes": [1], "action": "Fail"}, {"reasons": list(reasons), "action": "Fail"}]
    check_reasons(Failure.model_validate({"rules": rules}), report)
    assert {one.field for one in report.findings} <= {"spec.failure.rules[1].reasons"}
    return [one.message for one in report.findings]


def test_reasons_of_failures() -> None:
    """Breaks if a rule that is right is warned of."""
    given = (
        "Stalled",
        "OutOfMemory",
        "NonFinite",
        "UserException",
        "ExitCode",
        "StateInvalid",
        "Evicted",
        "StorageFull",
    )
    assert FAILURES.issuperset(given)
    assert warned(*given, "Signal11", "Signal6") == []


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Stall", "did you mean Stalled?"),
        ("stalled", "did you mean Stalled?"),
        ("OOMKilled", "did you mean OutOfMemory?"),
        ("NaN", "did you mean NonFinite?"),
        ("Purple", "known are Signal and a number, CheckpointCorrupt, "),
        ("Signal99", "no failure has this reason"),
        ("SpotInterruption", "an interruption or a stop, and rules judge failures only"),
        ("NodeSilent", "an interruption or a stop"),
        ("Signal9", "an interruption or a stop"),
        ("StorageUnreachable", "an interruption or a stop"),
        ("StorageDenied", "it ends or pauses the job, even if a rule says otherwise"),
    ],
)
def test_a_reason_that_no_failure_has(reason: str, words: str) -> None:
    (message,) = warned(reason)
    assert message.startswith(f"{reason}: ")
    assert words in message
