"""If the reasons in failure.rules are reasons that a failure can have. Pure.

A reason may come from a launcher of another version, so one that is not known is accepted, with a warning: a rule with
a wrong word never fits, and nobody notices before the failure for which it was written.
"""

import re
from difflib import get_close_matches
from typing import Final

from holdfast.api.attempt import EndReason
from holdfast.api.failure import Failure
from holdfast.core.attempt.why_ended import KUBELET_REASONS, STORAGE_BROKEN
from holdfast.core.observe.notices import NODE_SIGNS, NOTICE_REASONS
from holdfast_cli.check.findings import Report
from holdfast_train import errors

_ERRORS: Final = [
    one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.HoldfastTrainError)
]
FAILURES: Final = frozenset(
    (*(one.reason for one in _ERRORS if one.outcome == "failed"), EndReason.EVICTED, EndReason.EXIT_CODE,
     EndReason.OUT_OF_MEMORY, EndReason.STALLED, "UserException", "RunNotEnded", "Unknown")
) - STORAGE_BROKEN  # fmt: skip
_FINAL: Final = frozenset(one.reason for one in _ERRORS if one.outcome == "misconfigured") - FAILURES
_INTERRUPTIONS: Final = (
    frozenset(EndReason) | NODE_SIGNS | NOTICE_REASONS | KUBELET_REASONS | STORAGE_BROKEN | {"Signal9"}
) - FAILURES
_SIGNAL: Final = re.compile(r"Signal([1-9]|[1-5][0-9]|6[0-4])")
_OTHER_WORDS: Final = {"oomkilled": "OutOfMemory", "oom": "OutOfMemory", "nan": "NonFinite", "error": "UserException"}


def check_reasons(failure: Failure, report: Report) -> None:
    """Warn of each reason in a rule that no failure has."""
    for number, rule in enumerate(failure.failure_rules):
        for reason in rule.reasons:
            if reason not in FAILURES and (reason in _INTERRUPTIONS or not _SIGNAL.fullmatch(reason)):
                report.warn(f"spec.failure.rules[{number}].reasons", f"{reason}: {_why(reason)}")


def _why(reason: str) -> str:
    if reason in _INTERRUPTIONS:
        return "such an end is an interruption or a stop, and rules judge failures only: this never fits"
    if reason in _FINAL:
        return "another start would fail in the same way, so it ends or pauses the job, even if a rule says otherwise"
    close = get_close_matches(reason, FAILURES, 1) or [_OTHER_WORDS.get(reason.lower(), "")]
    known = f"did you mean {close[0]}?" if close[0] else f"known are Signal and a number, {', '.join(sorted(FAILURES))}"
    return f"no failure has this reason, as far as this version knows; {known}"
