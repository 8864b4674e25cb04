"""A turn: one attempt of the job, what is seen of its pod, and the draft that a step changes."""

from datetime import datetime

from holdfast.api.attempt import Attempt, AttemptState, Drain, EndKind
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.members import pods_by_rank
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Member, Situation


class Turn:
    """One look at the current attempt or at its successor. `attempt` is as the draft has it; a step changes it here."""

    __slots__ = ("attempt", "draft", "node", "notice", "now", "pod", "report", "role", "sight", "situation")

    def __init__(self, draft: Draft, role: Role, attempt: Attempt, situation: Situation) -> None:
        self.draft = draft
        self.role = role
        self.attempt = attempt
        self.situation = situation
        self.now, self.sight, self.pod, self.node, self.report, self.notice, *_ = situation

    def at(self, member: Member) -> "Turn":
        """The same turn, with the sight, the pod and the node of one member of several."""
        seen = self.situation._replace(sight=member.sight, pod=member.pod, node=member.node)
        return Turn(self.draft, self.role, self.attempt, seen)

    @property
    def pods(self) -> tuple[PodView, ...]:
        """The pods of the attempt if it has several nodes."""
        if self.attempt.nodes == 1:
            return ()
        return tuple(pods_by_rank(self.draft.snapshot.pods, self.attempt).values())

    def set_attempt(self, **changes: object) -> None:
        """Change fields of the attempt."""
        self.replace_attempt(self.attempt.model_copy(update=changes))

    def replace_attempt(self, attempt: Attempt | None) -> None:
        """Put another attempt in its place, or none; `self.attempt` is the last one that there was."""
        self.draft.set(**{self.role: attempt})
        self.attempt = attempt or self.attempt

    def drain(
        self, reason: str, message: str, deadline: datetime, kind: EndKind, *, deleted_at: datetime | None = None
    ) -> None:
        """Order the attempt to save and leave; `deleted_at` says that its pod is deleted at the same time."""
        drain = Drain(
            order=self.draft.next_order(),
            reason=reason,
            message=message,
            at=self.now,
            deadline=deadline,
            kind=kind,
            deleted_at=deleted_at,
            kill_at=deleted_at,
        )
        self.set_attempt(state=AttemptState.DRAINING, drain=drain, departure=None)


def take_turn(draft: Draft, role: Role = Role.CURRENT) -> Turn | None:
    """The turn of the current attempt, or of its successor; None if there is no such attempt."""
    attempt = draft.attempt(role)
    return Turn(draft, role, attempt, draft.situation(role)) if attempt else None
