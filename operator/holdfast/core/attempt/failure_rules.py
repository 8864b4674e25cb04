"""What is decided beforehand about failures of the program: spec.failure.rules, and hangs that come again."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.api.attempt import EndKind, EndReason
from holdfast.api.failure import FailureRule
from holdfast.core.attempt.why_ended import MESSAGE_LIMIT, End
from holdfast.core.books.history import not_stopped
from holdfast.core.draft import Draft

HANGS = 3  # in a row without progress, after which the job ends


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
