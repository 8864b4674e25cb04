"""What is decided beforehand about ends: spec.failure.rules, hangs that come again, and refusals that may pass."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.api.attempt import EndKind, EndReason
from holdfast.api.failure import FailureRule
from holdfast.core.attempt.fruitless import has_run, made_progress
from holdfast.core.attempt.why_ended import MESSAGE_LIMIT, End
from holdfast.core.books.history import not_stopped
from holdfast.core.draft import Draft
from holdfast.core.turn import Turn
from holdfast_protocol import reasons

HANGS = 3  # in a row without progress, after which the job ends
# What may pass without an edit of the job. A storage refuses every node; an image may differ between nodes, if its tag
# was given to another one, or a pull has left a part of it.
STORAGE_REFUSES = frozenset(
    (reasons.STORAGE_DENIED, reasons.STORAGE_NOT_FOUND, reasons.STORAGE_UNTRUSTED, reasons.STORAGE_PROXY_FAILED,
     reasons.DATA_INVALID)
)  # fmt: skip
IMAGE_REFUSES = frozenset((EndReason.COMMAND_NOT_FOUND, reasons.COMMAND_NOT_EXECUTABLE, EndReason.PYTHON_INCOMPLETE))
REFUSALS = 5  # attempts in a row that met the same, after which it does not pass by itself


def judge(rules: Sequence[FailureRule], end: End) -> End:
    """The end of an attempt as the first rule that fits it wants it; unchanged if no rule fits, or it is not a failure.

    A failure that is ignored counts as an interruption in which the node has no part.
    """
    if end.kind is not EndKind.FAILURE:
        return end
    for number, rule in enumerate(rules):
        if _fits(rule, end):
            judged = replace(end, action=rule.action, message=f"failure.rules[{number}]: {end.message}")
            return replace(judged, kind=EndKind.INTERRUPTION, anywhere=True) if rule.action == "Ignore" else judged
    return end


def give_up(draft: Draft, end: End, *, fruitless: bool) -> End:
    """The end of an attempt that hung, with the action Fail if it is one of HANGS in a row without progress.

    A rule of the user decides first. `fruitless`: this attempt made no progress, and is counted already. Between the
    hangs there may be attempts that got no node, or that the operator moved before they made progress.
    """
    if end.kind is not EndKind.FAILURE or end.reason != EndReason.STALLED or end.action is not None or not fruitless:
        return end
    before = not_stopped(draft.status.history)[-HANGS + 1 :]
    hung = [one for one in before if one.reason == EndReason.STALLED and one.fruitless]
    if len(hung) < HANGS - 1 or draft.status.fruitless_attempts < HANGS:
        return end
    name = draft.snapshot.job.metadata.name
    words = f"{HANGS} attempts in a row hung without progress; holdfast evidence {name} shows what their ranks did"
    return replace(end, action="Fail", message=f"{words}; the last: {end.message}"[:MESSAGE_LIMIT])


def hope(turn: Turn, end: End) -> End:
    """The end of an attempt that can never work as it is, for a job that has something to lose: the job does not fail.

    It pauses, unless that may pass by itself: then the attempt counts as an interruption, and the next one tries again.
    """
    if end.kind is not EndKind.MISCONFIGURED or not has_run(turn):
        return end
    passes = end.reason in STORAGE_REFUSES | IMAGE_REFUSES
    if not passes or (not made_progress(turn) and _was_hoped_often(turn.draft, end.reason)):
        return replace(end, pauses=True)
    anywhere = end.reason in STORAGE_REFUSES
    return replace(end, kind=EndKind.INTERRUPTION, infrastructure=True, anywhere=anywhere)


def is_last_try(draft: Draft) -> bool:
    """True if one more attempt without progress would end the job."""
    return draft.status.fruitless_attempts + 1 >= draft.snapshot.job.spec.failure.max_fruitless


def _was_hoped_often(draft: Draft, reason: str) -> bool:
    """True if the last attempts ended for this reason too, or this is the last one that the user allows."""
    if is_last_try(draft):
        return True
    last = not_stopped(draft.status.history)[1 - REFUSALS :]
    return len(last) == REFUSALS - 1 and all(one.reason == reason for one in last)


def _fits(rule: FailureRule, end: End) -> bool:
    """True if the end meets every condition that the rule has."""
    return (
        (not rule.exit_codes or end.exit_code in rule.exit_codes)
        and (not rule.reasons or end.reason in rule.reasons)
        and (rule.message is None or contains(end.message, rule.message))
    )


def contains(text: str, wanted: str) -> bool:
    """True if `text` contains `wanted`, in which * stands for any text, also none.

    A search takes a time that grows with the length of the text. That of a regular expression can grow much faster.
    """
    place = 0
    for part in wanted.split("*"):
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
