"""Attempts without progress: how long to wait after one, and when the job has to end because no attempt gets further.

What progress is depends on what the program tells. With Holdfast's checkpoints it is a newer checkpoint: the next
attempt trains everything after it again, so steps that were not saved are not progress. A program that only reports its
steps has progressed with its first step, because nothing is known of what it saves. A program that reports no steps has
progressed if a checkpoint of its folder was saved, or if it ran for five minutes: what stops it at its start, such as a
broken mount, stops it earlier.

An attempt without progress is counted where its cause is. If its Spot node was taken back, or was announced to go, the
job has no part in it: only the tier rests, so that in a storm of interruptions the next attempts begin elsewhere. A
node that was lost in any other way may have been lost by the program, so it counts for the tier and against the job.
"""

from collections import Counter
from datetime import datetime, timedelta

from holdfast.api.attempt import EndKind, EndReason
from holdfast.api.status import CheckpointStatus
from holdfast.core.attempt.delays import backoff
from holdfast.core.attempt.taken import was_node_taken
from holdfast.core.attempt.why_ended import End
from holdfast.core.capacity import knowledge
from holdfast.core.draft import Draft
from holdfast.core.observe.notices import NOTICE_REASONS
from holdfast.core.observe.report import SavedCheckpoint
from holdfast.core.observe.verdict import parse_verdict
from holdfast.core.turn import Turn
from holdfast_protocol import reasons

PROGRESS_WITHOUT_STEPS = timedelta(minutes=5)
COUNTED = (EndKind.INTERRUPTION, EndKind.FAILURE)
TRIES = 3  # fruitless attempts on a tier until it rests


def made_progress(turn: Turn) -> bool:
    """True if the attempt took a step of its own or, if it reports no steps, saved a checkpoint or ran for a while.

    Then the next attempt starts without a delay: what ended this one does not prevent a start.
    """
    if turn.attempt.first_step is not None or (not turn.attempt.fenced and _own_commit(turn) is not None):
        return True
    started, trainer = trainer_started(turn, turn.attempt.raised_at), turn.pod.trainer if turn.pod else None
    until = min((trainer.ended_at if trainer else None) or turn.now, turn.now)
    return not turn.attempt.fenced and started is not None and until - started >= PROGRESS_WITHOUT_STEPS


def has_run(turn: Turn) -> bool:
    """True if the trainer of an earlier attempt ran, or this attempt made progress: the job has something to lose."""
    ran_at = turn.draft.status.ledger.ran_at
    return (ran_at is not None and ran_at < turn.attempt.raised_at) or made_progress(turn)


def trainer_started(turn: Turn, since: datetime) -> datetime | None:
    """When the trainer started, at the earliest `since`; from the pod if the operator was down at that time."""
    attempt, seen = turn.attempt, turn.pod.trainer.started_at if turn.pod and turn.pod.trainer else None
    return attempt.started_at or (turn.situation.clamp_time(seen, since) if seen else None)


def count_fruitless(turn: Turn, end: End) -> bool:
    """Count an attempt that was lost, or failed, without progress; progress begins the counts again.

    True if it counts against spec.failure.maxFruitless.
    """
    draft, tier = turn.draft, turn.attempt.tier
    if _gained(turn):
        draft.set(fruitless_attempts=0, tiers=knowledge.record_progress(draft.status.tiers, tier.name))
        return False
    taken = was_node_taken(turn, end)
    if end.kind is EndKind.INTERRUPTION and (taken or _was_lost_with_node(turn, end)):
        _let_rest(draft, tier.name)
    announced = end.reason in NOTICE_REASONS
    if end.kind not in COUNTED or (taken and (announced or _is_reclaim(turn, end))):
        return False
    draft.set(fruitless_attempts=draft.status.fruitless_attempts + 1)
    return True


def _is_reclaim(turn: Turn, end: End) -> bool:
    """True if the tier is Spot, and the node did not fall silent: its program may bring a node down."""
    return turn.attempt.tier.kind == "Spot" and end.reason != EndReason.NODE_SILENT


def _was_lost_with_node(turn: Turn, end: End) -> bool:
    """True if the node may be the cause of the interruption, and not only the way from there to the operator."""
    had_node = turn.attempt.scheduled_at is not None
    return had_node and end.infrastructure and end.blames_node and end.reason != EndReason.UNREACHABLE


def _let_rest(draft: Draft, tier: str) -> None:
    """Count a fruitless attempt on the tier. From the third in a row on, the tier rests; each time for longer."""
    config, known = draft.snapshot.config, knowledge.find(draft.status.tiers, tier)
    count = ((known and known.fruitless) or 0) + 1
    rest = backoff(config.rest_base, config.rest_limit, count - TRIES + 1) if count >= TRIES else None
    until = draft.now + rest if rest else None
    draft.set(tiers=knowledge.record_fruitless(draft.status.tiers, tier, count, until))


def is_hopeless(draft: Draft) -> bool:
    """True if as many attempts in a row made no progress as spec.failure.maxFruitless allows."""
    return draft.status.fruitless_attempts >= draft.snapshot.job.spec.failure.max_fruitless


def evidence(draft: Draft) -> str:
    """How often each reason ended one of the last attempts, and the words of the last one."""
    count, limit = draft.status.fruitless_attempts, draft.snapshot.job.spec.failure.max_fruitless
    ended = [record for record in draft.status.history if record.fruitless][-count:]
    reasons = ", ".join(f"{times} x {reason}" for reason, times in Counter(one.reason for one in ended).most_common())
    last = ended[-1] if ended else None
    rank = f" (rank {last.rank})" if last and last.rank is not None else ""
    where = f"attempt {last.number} on {last.node or 'no node'}{rank}: {last.reason}: {last.message}" if last else ""
    text = f"{count} attempts in a row made no progress (spec.failure.maxFruitless: {limit}): {reasons}"
    return f"{text}; the last: {where}".rstrip(": ")


def _gained(turn: Turn) -> bool:
    """True if the next attempt starts further than this one did, as far as that is known."""
    attempt = turn.attempt
    if not (attempt.fenced or turn.draft.status.fenced_program):
        return made_progress(turn)
    started_at = attempt.resumed_step or (attempt.first_step or 1) - 1
    return max(_saved_steps(turn), default=0) > started_at


def _saved_steps(turn: Turn) -> list[int]:
    """The steps that the attempt saved, as its trainer and its launcher report them."""
    trainer, saved = turn.pod.trainer if turn.pod else None, _own_commit(turn)
    verdict = parse_verdict(trainer.message) if trainer and trainer.ended else None
    last = verdict.step if verdict and verdict.reason == reasons.SAVED_AND_LEFT else None
    steps = [step for step in (verdict.saved_step if verdict else None, last) if step is not None]
    return steps if saved is None or saved.step is None else [*steps, saved.step]


def _own_commit(turn: Turn) -> SavedCheckpoint | CheckpointStatus | None:
    """The newest commit of the attempt, as it has reported it to this operator or to an earlier one."""
    if turn.report is not None and turn.report.checkpoint is not None:
        return turn.report.checkpoint
    known, since = turn.draft.status.checkpoint, turn.attempt.scheduled_at
    return known if known is not None and since is not None and known.committed_at > since else None
