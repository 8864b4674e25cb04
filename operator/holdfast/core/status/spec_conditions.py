"""SettingsPending and Misconfigured: the conditions that say what a person's edit of the job does, or has to do."""

from typing import Final

from holdfast.api.attempt import AttemptState
from holdfast.core.draft import Draft
from holdfast.core.made_from import PROGRAM, changed_fields
from holdfast.core.status.conditions import drop_condition, find_condition, set_condition

PENDING: Final = "SettingsPending"
MISCONFIGURED: Final = "Misconfigured"


def show_spec_conditions(draft: Draft) -> None:
    """Set both conditions as status and spec say."""
    _show_pending(draft)
    _show_misconfigured(draft)


def _show_pending(draft: Draft) -> None:
    """SettingsPending, while the current attempt runs with other values than spec has, which the next one takes."""
    current = draft.status.current
    if current is None or current.state is AttemptState.INTENDED:  # its pods are made from what spec says then
        drop_condition(draft, PENDING)
        return
    names = [name for name in changed_fields(current, draft.snapshot.job.spec) if name not in PROGRAM]
    if not names:
        drop_condition(draft, PENDING)
        return
    text = (
        f"{', '.join(f'spec.{name}' for name in names)}: attempt {current.number} goes on with the values that it was "
        "started with; a change counts from the next attempt on"
    )
    known = find_condition(draft, PENDING)
    if known is None or known.message != text:
        draft.event(PENDING, text)
    set_condition(draft, PENDING, "True", "NextAttempt", text)


def _show_misconfigured(draft: Draft) -> None:
    """Misconfigured, while the job is paused until a person corrects something; False from then on."""
    if wrong := draft.status.misconfigured:
        set_condition(draft, MISCONFIGURED, "True", wrong.reason, wrong.message)
    elif find_condition(draft, MISCONFIGURED):
        set_condition(draft, MISCONFIGURED, "False", "Corrected")
