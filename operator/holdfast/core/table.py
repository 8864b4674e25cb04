"""The transition table: what a job does next, by where its current attempt stands and what is seen of its pod.

The first row that fits fires; rows are tried again until none fits. Every row changes the status so that it does not
fit again. `docs/decisions.md` shows this table, generated from here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from holdfast.api.attempt import AttemptState
from holdfast.core.attempt import adopt, end, requests, silence, start, stuck, suspend
from holdfast.core.attempt import drain as drains
from holdfast.core.attempt.pause import held_back
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation
from holdfast.core.successor import bring_up, change_tier, depart

When = Callable[[Draft, Situation], bool]
Step = Callable[[Draft, Situation], None]

INTENDED, ACQUIRING, STARTING = AttemptState.INTENDED, AttemptState.ACQUIRING, AttemptState.STARTING
RUNNING, DRAINING = AttemptState.RUNNING, AttemptState.DRAINING
ON_NODE = (STARTING, RUNNING, DRAINING)
WORKING = (STARTING, RUNNING)
ALIVE = (Sight.PLACED, Sight.RUNNING)
UNPLACED = (Sight.PENDING, Sight.ABSENT, Sight.NOTHING)


@dataclass(frozen=True, slots=True)
class Row:
    """One transition. `states` and `sights` restrict it, empty for any; `guard` says in words what `when` checks."""

    name: str
    states: tuple[AttemptState | None, ...]
    sights: tuple[Sight, ...]
    guard: str
    when: When
    do: Step
    then: str

    def may_fit(self, state: AttemptState | None, sight: Sight) -> bool:
        """True if the row is for this state and sight; it fires if `when` says so too."""
        return (not self.states or state in self.states) and (not self.sights or sight in self.sights)


def _always(draft: Draft, s: Situation) -> bool:
    return True


def _suspend(draft: Draft, s: Situation) -> bool:
    return held_back(draft) is not None


def _fenced(draft: Draft, s: Situation) -> bool:
    return drains.harmless(draft) and silence.lost_touch(draft, s)


def _forced(draft: Draft, s: Situation) -> bool:
    return s.pod is not None and s.pod.deleted_at is not None and s.pod.deletion_grace == 0


def _unfenced(draft: Draft, s: Situation) -> bool:
    drain = draft.attempt.drain
    waiting = drain is not None and drain.reason == "NodeSilent"
    return not drains.harmless(draft) and not waiting and silence.lost_touch(draft, s)


def _acknowledged(draft: Draft, s: Situation) -> bool:
    drain = draft.attempt.drain
    if drain is None or drain.acknowledged_at or s.report is None:
        return False
    return s.report.acknowledged >= drain.order


TABLE: tuple[Row, ...] = (
    # What has happened
    Row(
        "learned", (), (), "the trainer reports that it holds the fence, or its first step",
        lambda _, s: start.learned(s), start.learn, "remembered; the last interruption is settled",
    ),
    Row(
        "taken up", (None,), (), "status knows of no attempt, and there are pods", adopt.unknown_pods,
        adopt.take_up, "Intended, if it is the first pod; any other is deleted",
    ),
    Row(
        "taken over", (), (), "there is a pod of the next number: promised, and never written down",
        adopt.promised_pod, adopt.take_over, "Intended; the successor, if there is a current attempt",
    ),
    Row(
        "adopted", (INTENDED,), (), "its pod is there already, and no other pod of the job lives",
        adopt.there_already, adopt.adopt, "Acquiring; another number if it runs another program",
    ),
    Row("ended", (), (Sight.ENDED,), "", _always, end.end_seen, "by the end: next attempt, Completed or Failed"),
    Row("pod gone", ON_NODE, (Sight.VANISHED,), "", _always, end.vanished, "loss; next attempt"),
    Row("node gone", (), (Sight.NODE_GONE,), "", _always, end.node_gone, "loss; next attempt"),
    Row(
        "pod refused", (ACQUIRING,), (Sight.ABSENT,), "the API server refused the pod", start.refused,
        start.note_refusal, "Intended, growing delay; Failed if the pod is invalid",
    ),
    Row(
        "pod missing", (ACQUIRING,), (Sight.ABSENT,), "for longer than a moment", start.missing,
        start.raise_again, "the number is raised again",
    ),
    Row(
        "pending pod deleted", (ACQUIRING,), (Sight.PENDING,), "somebody deleted it",
        lambda _, s: s.pod is not None and s.pod.deleted_at is not None, start.replace_deleted,
        "the number is raised again, growing delay",
    ),
    Row("placed", (ACQUIRING,), (*ALIVE, Sight.SILENT), "", _always, start.placed, "Starting"),
    Row("started", (STARTING,), (Sight.RUNNING,), "", _always, start.running, "Running"),
    # A node that says nothing
    Row(
        "deleted by force", ON_NODE, (Sight.SILENT,), "somebody says by force that nothing runs there", _forced,
        end.forced, "loss; next attempt",
    ),
    Row(
        "node silent", ON_NODE, (Sight.SILENT,), "alone or for very long, no report arrives, a fence protects", _fenced,
        end.node_silent, "loss; next attempt elsewhere",
    ),
    Row(
        "node silent, no fence", ON_NODE, (Sight.SILENT,), "alone and for longer, nothing fences the program",
        _unfenced, drains.drain_unfenced_silent, "Draining until the pod is confirmed gone",
    ),
    # The user's word
    Row(
        "out of time", (), (), "active longer than spec.activeDeadline", suspend.past_active_deadline,
        suspend.fail_active_deadline, "Failed",
    ),
    Row(
        "suspend before start", (INTENDED, ACQUIRING), (*UNPLACED, Sight.CREATED), "spec.suspend, or over budget",
        _suspend, suspend.suspend_before_start, "no attempt; nothing counted",
    ),
    Row(
        "suspend", WORKING, ALIVE, "spec.suspend, or it would exceed its budget", _suspend, drains.drain_to_suspend,
        "Draining",
    ),
    Row(
        "suspended", (None,), (), "spec.suspend or over budget, and not yet said so",
        lambda d, s: _suspend(d, s) and s.status.suspended_at is None, suspend.suspended, "Suspended",
    ),
    Row(
        "resume", (), (), "suspended, and nothing holds it back any more",
        lambda d, s: s.status.suspended_at is not None and not _suspend(d, s), suspend.resume, "next attempt",
    ),
    # A notice, and leaving
    Row(
        "departs", (RUNNING,), (Sight.RUNNING,), "its node will go, and there is time for its successor to come up",
        depart.may_depart, depart.depart, "it saves and trains on; a successor",
    ),
    Row(
        "less time to train", (RUNNING,), ALIVE, "a notice leaves less time than was known",
        depart.departs_sooner, depart.hasten_departure, "an earlier departure",
    ),
    Row(
        "stays", (RUNNING,), ALIVE, "it departs, and the notice was withdrawn", depart.withdrawn, depart.stay,
        "no departure, no successor",
    ),
    Row(
        "leaves", (RUNNING,), ALIVE, "it departs, and its successor waits at the fence, or time is up",
        depart.must_leave, depart.leave, "Draining",
    ),
    Row(
        "follower lost", (RUNNING,), ALIVE, "it departs, and no successor comes up", depart.alone,
        depart.raise_another, "another successor",
    ),
    Row(
        "notice", WORKING, ALIVE, "node or pod is about to be lost",
        lambda d, s: s.notice is not None and d.attempt.departure is None,
        drains.drain_on_notice, "Draining; the successor's number is raised",
    ),
    Row(
        "switch", (RUNNING,), (Sight.RUNNING,), "its successor on the tier that was chosen waits at the fence",
        change_tier.may_switch, change_tier.switch, "Draining",
    ),
    Row(
        "no time to lose", WORKING, ALIVE, "the deadline asks for another tier, and no successor can be waited for",
        change_tier.must_leave, change_tier.leave, "Draining; the successor's number is raised",
    ),
    Row(
        "another tier", (RUNNING,), (Sight.RUNNING,), "the policy chose one, or one would be better and is watched",
        change_tier.may_move, change_tier.bring_up, "a successor, whose pending pod is the probe",
    ),
    Row(
        "never passed", (RUNNING,), (Sight.RUNNING,), "let pass the fence long ago, and nothing is heard of it",
        depart.never_passed, end.never_passed, "loss; next attempt",
    ),
    Row(
        "less time", (DRAINING,), ALIVE, "a notice leaves less time than the order said",
        drains.sooner, drains.hasten, "Draining, shorter deadline",
    ),
    Row("move", (), (), "a move was requested", lambda d, s: s.attempt is not None and requests.move_asked(d, s),
        requests.move, "Draining, or another tier"),
    Row(
        "order acknowledged", (DRAINING,), (), "the trainer has read the order", _acknowledged,
        drains.acknowledge, "Draining: it saves",
    ),
    Row(
        "no answer", (DRAINING,), ALIVE, "not acknowledged in time, or past the deadline", drains.must_delete,
        drains.delete_drained, "the pod is deleted with what grace is left",
    ),
    Row(
        "does not end", (DRAINING,), ALIVE, "long after its grace, and a fence protects", drains.outlived,
        end.never_ended, "loss; next attempt",
    ),
    Row(
        "checkpoint", (RUNNING,), (Sight.RUNNING,), "a checkpoint was requested", requests.checkpoint_asked,
        requests.order_checkpoint, "the trainer is told to save",
    ),
    Row(
        "checkpoint order closed", (), (), "the order to save was read, or nobody is left to read it",
        lambda _, s: requests.checkpoint_order_done(s), requests.close_checkpoint_order, "",
    ),
    # Getting a pod to run
    Row(
        "no node in time", (INTENDED, ACQUIRING), UNPLACED,
        "acquireTimeout is over, the policy says so, or the tier left the grid", start.acquire_over,
        end.to_next_tier, "the tier below, or that of the policy",
    ),
    Row("bad container", (STARTING,), (Sight.PLACED,), "its image or configuration cannot work",
        stuck.stuck_for_good, stuck.stuck, "Failed"),
    Row("start too slow", (STARTING,), (Sight.PLACED,), "not started for very long", start.start_over,
        end.never_started, "loss; next attempt elsewhere"),
    Row(
        "first pod", (None,), (), "the job has neither status nor pod, is not held back, and the grid has a tier",
        start.brand_new, start.create_first, "its pod; the status follows",
    ),
    Row(
        "begin", (None,), (), "not held back, and the grid has a tier",
        lambda d, _: not d.created and start.may_begin(d), start.intend_first, "Intended",
    ),
    Row(
        "create", (INTENDED,), (), "its delay is over and no other pod of the job lives", start.may_create,
        start.create, "Acquiring",
    ),
)  # fmt: skip

# What the successor of the current attempt does, while that one trains or leaves. Tried when no row above fits.
SUCCESSOR_TABLE: tuple[Row, ...] = (
    Row(
        "successor not wanted", (), (), "held back, or its tier is no better any more", bring_up.not_wanted,
        bring_up.drop_unwanted, "given up",
    ),
    Row("successor ended", (), (Sight.ENDED,), "", _always, bring_up.ended, "given up"),
    Row(
        "successor gone", (), (Sight.VANISHED, Sight.NODE_GONE, Sight.SILENT), "", _always, bring_up.gone,
        "given up",
    ),
    Row(
        "successor on notice", ON_NODE, ALIVE, "its own node or pod is about to be lost",
        lambda _, s: s.notice is not None, bring_up.noticed, "given up",
    ),
    Row(
        "successor refused", (ACQUIRING,), (Sight.ABSENT,), "its pod was refused: for good, or nothing presses",
        bring_up.refused_for_good, bring_up.give_up_refused, "given up",
    ),
    Row(
        "successor put off", (ACQUIRING,), (Sight.ABSENT,), "the API server refused the pod", start.refused,
        start.note_refusal, "Intended, growing delay",
    ),
    Row(
        "successor missing", (ACQUIRING,), (Sight.ABSENT,), "its pod is not seen for longer than a moment",
        start.missing, start.raise_again, "the number is raised again",
    ),
    Row(
        "pending successor deleted", (ACQUIRING,), (Sight.PENDING,), "somebody deleted it",
        lambda _, s: s.pod is not None and s.pod.deleted_at is not None, start.replace_deleted,
        "the number is raised again, growing delay",
    ),
    Row(
        "successor not worth it", ON_NODE, ALIVE, "its tier will not prove itself within spec.capacity.maxOverlap",
        bring_up.not_worth_its_node, change_tier.give_back, "its node goes back",
    ),
    Row("successor placed", (ACQUIRING,), ALIVE, "", _always, bring_up.placed, "Starting"),
    Row("successor started", (STARTING,), (Sight.RUNNING,), "", _always, bring_up.started, "Running: it holds"),
    Row(
        "handed over", (RUNNING,), (Sight.RUNNING,), "the current attempt says that it has saved and left",
        bring_up.handed_over, bring_up.let_pass, "it may pass the fence",
    ),
    Row(
        "successor too slow", ON_NODE, (), "two attempts have had nodes for longer than spec.capacity.maxOverlap",
        bring_up.overlaps_too_long, bring_up.give_up_overlap, "given up",
    ),
    Row(
        "successor stuck", (STARTING,), (Sight.PLACED,), "its image or configuration cannot work",
        stuck.stuck_for_good, bring_up.stuck, "given up",
    ),
    Row(
        "no node for successor", (INTENDED, ACQUIRING), UNPLACED,
        "the current attempt has to leave, and there is another tier to try",
        bring_up.no_node, bring_up.to_another_tier, "another tier",
    ),
    Row(
        "create beside", (INTENDED,), (), "the current attempt holds the fence, and no third pod lives",
        bring_up.may_create, start.create_beside, "Acquiring",
    ),
)  # fmt: skip


@cache
def candidates(state: AttemptState | None, sight: Sight, *, successor: bool) -> tuple[Row, ...]:
    """The rows, in their order, for an attempt in this state whose pod is seen so."""
    return tuple(row for row in (SUCCESSOR_TABLE if successor else TABLE) if row.may_fit(state, sight))
