"""The transition table: what a job does next, by where its current attempt stands and what is seen of its pod.

The first row that fits fires; rows are tried again until none fits. Every row changes the status so that it does not
fit again. `docs/reference/decisions.md` shows this table, generated from here; the words of its column "if" are the
docstrings of the guards. A row reads: name, states, sights, guard, deed, where it leads.
"""

from functools import cache

from holdfast.api.attempt import AttemptState
from holdfast.core.attempt import (
    adopt,
    all_or_none,
    cause,
    clock_ahead,
    drain,
    end,
    meeting,
    pause,
    placement,
    requests,
    silent_node,
    start,
    stuck,
    suspend,
)
from holdfast.core.observe.situation import Sight
from holdfast.core.row import Row, job_row, row
from holdfast.core.successor import bring_up, change_tier, depart, slow_node
from holdfast.core.turn import Turn

INTENDED, ACQUIRING = (AttemptState.INTENDED,), (AttemptState.ACQUIRING,)
STARTING, RUNNING, DRAINING = (AttemptState.STARTING,), (AttemptState.RUNNING,), (AttemptState.DRAINING,)
WAITING, WORKING, ON_NODE = INTENDED + ACQUIRING, STARTING + RUNNING, STARTING + RUNNING + DRAINING
ANY, NO_ATTEMPT = (), (None,)

ABSENT, PENDING, VANISHED, ENDED = (Sight.ABSENT,), (Sight.PENDING,), (Sight.VANISHED,), (Sight.ENDED,)
PLACED, UP, SILENT, NODE_GONE = (Sight.PLACED,), (Sight.RUNNING,), (Sight.SILENT,), (Sight.NODE_GONE,)
ALIVE, ANYTHING = PLACED + UP, ()
UNPLACED, NOT_YET = (Sight.PENDING, Sight.ABSENT, Sight.NOTHING), (Sight.NOTHING,)


def always(turn: Turn) -> bool:
    """True."""
    return True


TABLE: tuple[Row, ...] = (
    # What has happened
    job_row("clock ahead", ANY, clock_ahead.clock_difference, clock_ahead.pull_back,
            then="status has the times of this clock; no delay is longer for it"),
    row("learned", ANY, ANYTHING, start.find_news, start.learn,
        then="status has it; the cost of the last interruption is known"),
    job_row("taken up", NO_ATTEMPT, adopt.newest_unknown_pod, adopt.take_up,
            then="Intended, if it is the first pod; any other is deleted"),
    job_row("taken over", ANY, adopt.promised_pod, adopt.take_over,
            then="Intended; the successor, if there is a current attempt"),
    row("adopted", INTENDED, ANYTHING, adopt.pod_to_adopt, adopt.adopt,
        then="Acquiring; another number if it runs another program"),
    row("member lost", ACQUIRING + STARTING, ANYTHING, meeting.lost_members, meeting.replace_members,
        then="Intended: new pods for these ranks"),
    row("ended", ANY, ENDED, cause.find_cause, end.record_end,
        then="by how it ended: next attempt, paused, Completed or Failed"),
    row("pod gone", ON_NODE, VANISHED, always, end.record_pod_gone, then="interruption; next attempt"),
    row("node gone", ANY, NODE_GONE, always, end.record_node_gone, then="interruption; next attempt"),
    row("pod refused", ACQUIRING, ABSENT, start.was_refused, start.note_refusal,
        then="Intended, growing delay; Failed, or paused, if no job could have this pod"),
    row("pod missing", ACQUIRING, ABSENT, start.is_missing, start.raise_again, then="the number is raised again"),
    row("pending pod deleted", ACQUIRING, PENDING, start.was_deleted, start.replace_deleted,
        then="the number is raised again, growing delay"),
    row("placed", ACQUIRING, ALIVE + SILENT, start.seen_pod, start.note_placed, then="Starting"),
    row("met", STARTING, UP, meeting.may_meet, meeting.meet, then="the launchers start the program on each node"),
    row("not met", STARTING, UP, meeting.missing_ranks, meeting.give_up, then="interruption; next attempt"),
    row("started", STARTING, UP, start.started_pod, start.note_running, then="Running"),
    # A silent node
    row("deleted by force", ON_NODE, SILENT, silent_node.was_deleted_by_force, end.record_forced_deletion,
        then="interruption; next attempt"),
    row("node silent", ON_NODE, SILENT, silent_node.is_lost, end.record_node_silent,
        then="interruption; next attempt elsewhere"),
    row("node silent, wait", ON_NODE, SILENT, silent_node.is_lost_but_may_do_harm, drain.drain_silent,
        then="Draining until the pod is confirmed gone"),
    # What the user set
    job_row("out of time", ANY, suspend.past_active_deadline, suspend.fail_active_deadline, then="Failed"),
    row("given up before start", WAITING, (*UNPLACED, Sight.CREATED), suspend.must_give_up, end.stop_waiting,
        then="no attempt; nothing counted"),
    row("suspend", WORKING, ALIVE, suspend.must_pause, drain.drain_to_suspend, then="Draining"),
    row("edited", WORKING, ALIVE, suspend.other_work, drain.drain_for_edit, then="Draining"),
    job_row("corrected", ANY, pause.may_try_again, pause.try_again, then="nothing is wrong, as far as is known"),
    job_row("suspended", NO_ATTEMPT, suspend.must_be_marked, suspend.mark_suspended, then="Suspended"),
    job_row("resume", ANY, suspend.may_resume, suspend.resume, then="next attempt"),
    # A notice, and leaving
    row("departs", RUNNING, UP, depart.may_depart, depart.depart, then="it saves and trains on; a successor"),
    row("other time to train", RUNNING, ALIVE, depart.has_other_deadline, depart.reschedule,
        then="an earlier departure, or a later one"),
    row("stays", RUNNING, ALIVE, depart.notice_withdrawn, depart.stay, then="no departure, no successor"),
    row("leaves", RUNNING, ALIVE, depart.must_leave, depart.leave, then="Draining"),
    row("follower lost", RUNNING, ALIVE, depart.is_without_successor, depart.raise_another, then="another successor"),
    row("notice", WORKING, ALIVE, drain.notice_to_drain_on, drain.drain_on_notice,
        then="Draining; the successor's number is raised"),
    row("fast again", RUNNING, UP, slow_node.is_fast_again, slow_node.stay, then="no successor for it"),
    row("slow node left", RUNNING, UP, slow_node.may_leave, slow_node.leave, then="Draining"),
    row("switch", RUNNING, UP, change_tier.may_switch, change_tier.switch, then="Draining"),
    row("no time to lose", WORKING, ALIVE, change_tier.must_leave, change_tier.leave,
        then="Draining; the successor's number is raised"),
    row("another tier", RUNNING, UP, change_tier.may_move, change_tier.bring_up,
        then="a successor, whose pending pod is the probe"),
    row("slow rank", RUNNING, UP, slow_node.may_replace, slow_node.replace,
        then="a successor away from its node"),
    row("never passed", RUNNING, UP, depart.still_waits_at_fence, end.record_unreachable,
        then="interruption; next attempt"),
    row("less time", DRAINING, ALIVE, drain.has_earlier_deadline, drain.update_drain,
        then="Draining, shorter deadline"),
    row("move", ANY, ANYTHING, requests.move_request, requests.move, then="Draining, or another tier"),
    row("order acknowledged", DRAINING, ANYTHING, drain.was_acknowledged, drain.update_drain,
        then="Draining: it saves"),
    row("no answer", DRAINING, ALIVE, drain.must_delete, drain.delete_drained,
        then="the pod is deleted, with the grace that is left"),
    row("does not end", DRAINING, ALIVE, drain.outlived_grace, end.record_never_ended,
        then="interruption; next attempt"),
    row("checkpoint", RUNNING, UP, requests.checkpoint_request, requests.order_checkpoint,
        then="the trainer gets an order to save"),
    job_row("checkpoint order closed", ANY, requests.is_checkpoint_order_done, requests.close_checkpoint_order,
            then="the order is closed"),
    # Getting a pod to run
    row("no node in time", WAITING, UNPLACED, placement.other_tier, end.try_other_tier,
        then="the next tier of the grid, or the policy's tier"),
    row("avoided for nothing", WAITING, PENDING + NOT_YET, placement.only_avoided_left, start.use_avoided,
        then="the number is raised again, for a pod that may use these nodes"),
    row("part given back", WAITING, UNPLACED, all_or_none.held_too_long, all_or_none.give_back,
        then="Intended: all its pods are given back, growing delay"),
    row("no room", INTENDED, ANYTHING, all_or_none.lacks_room, all_or_none.wait,
        then="Intended: it waits until nodes are free"),
    row("bad container", STARTING, PLACED, stuck.stuck_container, stuck.fail_stuck,
        then="interruption; next attempt after a growing delay; Failed, or paused, if it can never work"),
    row("start too slow", STARTING, PLACED, start.should_have_started, end.record_never_started,
        then="interruption; next attempt elsewhere"),
    job_row("first pod", NO_ATTEMPT, start.is_new, start.create_first, then="its pod; the status follows"),
    job_row("begin", NO_ATTEMPT, start.may_begin, start.intend_first, then="Intended"),
    row("create", INTENDED, ANYTHING, start.may_create, start.create, then="Acquiring"),
)  # fmt: skip

# What the successor of the current attempt does, while that one trains or leaves. Tried when no row above fits.
SUCCESSOR_TABLE: tuple[Row, ...] = (
    row("successor not wanted", ANY, ANYTHING, bring_up.is_unwanted, bring_up.drop_unwanted, then="given up"),
    row("successor's member lost", ACQUIRING + STARTING, ANYTHING, meeting.lost_members, meeting.replace_members,
        then="Intended: new pods for these ranks"),
    row("successor ended", ANY, ENDED, cause.find_cause, bring_up.drop_ended, then="given up"),
    row("successor gone", ANY, VANISHED + NODE_GONE + SILENT, always, bring_up.drop_gone, then="given up"),
    row("successor on notice", ON_NODE, ALIVE, bring_up.notice_to_drop_on, bring_up.drop_on_notice, then="given up"),
    row("successor refused", ACQUIRING, ABSENT, bring_up.was_refused_for_good, bring_up.drop_refused, then="given up"),
    row("successor put off", ACQUIRING, ABSENT, start.was_refused, start.put_off, then="Intended, growing delay"),
    row("successor missing", ACQUIRING, ABSENT, start.is_missing, start.raise_again, then="the number is raised again"),
    row("pending successor deleted", ACQUIRING, PENDING, start.was_deleted, start.replace_deleted,
        then="the number is raised again, growing delay"),
    row("successor not worth it", ON_NODE, ALIVE, bring_up.asked_again_if_not_worth_it, change_tier.give_back,
        then="its node goes back"),
    row("successor placed", ACQUIRING, ALIVE, start.seen_pod, start.set_placed, then="Starting"),
    row("successor met", STARTING, UP, meeting.may_meet, meeting.meet,
        then="the launchers start the program on each node"),
    row("successor started", STARTING, UP, start.started_pod, bring_up.note_running,
        then="Running: it waits at the fence"),
    row("handed over", RUNNING, UP, bring_up.was_handed_over, bring_up.let_pass, then="it may pass the fence"),
    row("successor too slow", ON_NODE, ANYTHING, bring_up.overlaps_too_long, bring_up.drop_slow, then="given up"),
    row("successor stuck", STARTING, PLACED, stuck.stuck_container, bring_up.drop_stuck, then="given up"),
    row("no node for successor", WAITING, UNPLACED, bring_up.other_tier_if_urgent, bring_up.try_other_tier,
        then="another tier"),
    row("part of a successor", WAITING, UNPLACED, all_or_none.held_too_long, bring_up.drop_part,
        then="given up; if it is urgent, it tries again after a growing delay"),
    row("no room for successor", INTENDED, ANYTHING, all_or_none.lacks_room, all_or_none.wait,
        then="Intended: it waits until nodes are free"),
    row("create beside", INTENDED, ANYTHING, bring_up.may_create, start.create_beside, then="Acquiring"),
)  # fmt: skip


@cache
def candidates(state: AttemptState | None, sights: frozenset[Sight], *, successor: bool) -> tuple[Row, ...]:
    """The rows, in their order, for an attempt in this state whose pod is seen so, or whose pods are."""
    return tuple(row for row in (SUCCESSOR_TABLE if successor else TABLE) if row.may_fit(state, sights))
