"""What the user has decided beforehand about failures of the program: spec.failure.rules."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.api.attempt import EndKind
from holdfast.api.job import FailureRule
from holdfast.core.attempt.why_ended import End


def judge(rules: Sequence[FailureRule], end: End) -> End:
    """The end of an attempt as the first rule that fits it wants it; unchanged if no rule fits, or it is no failure.

    A failure that is ignored counts as a loss in which the node has no part.
    """
    if end.kind is not EndKind.FAILURE:
        return end
    for number, rule in enumerate(rules):
        if _fits(rule, end):
            judged = replace(end, action=rule.action, message=f"failure.rules[{number}]: {end.message}")
            return replace(judged, kind=EndKind.LOSS, anywhere=True) if rule.action == "Ignore" else judged
    return end


def _fits(rule: FailureRule, end: End) -> bool:
    """True if the end meets every condition that the rule has."""
    return (
        (not rule.exit_codes or end.exit_code in rule.exit_codes)
        and (not rule.reasons or end.reason in rule.reasons)
        and (rule.message is None or contains(end.message, rule.message))
    )


def contains(text: str, wanted: str) -> bool:
    """True if `text` contains `wanted`, in which * stands for any text, also none.

    The time grows with the length of the text, whatever a user asks for; that of a regular expression may not.
    """
    place = 0
    for part in wanted.split("*"):
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
