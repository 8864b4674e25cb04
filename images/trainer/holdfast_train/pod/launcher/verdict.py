"""The verdict: why the program ended, from what is known of its end. Pure."""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from holdfast_protocol import reasons
from holdfast_protocol.hang import Hang
from holdfast_protocol.lost_peer import says_peer_is_gone
from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_protocol.verdict import REASON, ROOT_CAUSE, UNKNOWN, Outcome, Verdict

from .failed_process import last_word

_OUT_OF_MEMORY = re.compile(r"(?i)\bMemoryError\b|\bOutOfMemoryError\b|CUDA out of memory|can't allocate memory")

_ENDED_BY = re.compile(rf"{ROOT_CAUSE}(?P<which>.+), exitcode: -(?P<signal>\d+)")
_SHELL_CODES = frozenset(128 + known for known in signal.Signals)  # of a shell whose command a signal has ended

# Of a rank: results that decide, the first one that there is, with the outcome and the reason; empty: the rank's own.
_SURE: tuple[tuple[str, Outcome, str], ...] = (
    ("fenced", "fenced", ""),
    ("misconfigured", "misconfigured", ""),
    ("saved", "drained", reasons.SAVED_AND_LEFT),
    ("left", "drained", reasons.LEFT_WITHOUT_SAVING),
)
_LOST_WORKER = re.compile(r"(?i)\bkilled\b|exited unexpectedly")  # a process of the rank, such as a loader of data


class End(NamedTuple):
    """How the program ended. `code`: its exit code, None if a signal ended it.

    `signalled_at`: when the launcher got SIGTERM or SIGINT, in seconds since 1970; None if it got neither.
    `oom_kills`: how many processes the kernel killed meanwhile because memory ran out, while this launcher lived on.
    `left`: names of the processes that the program left running when it ended with exit code 0.
    `stalled`: how the program hung, so that the launcher killed it, empty if it did not; `hang`: what the operator
    compares with other nodes.
    `regrouped_at`: when the launcher killed the program because a newer attempt begins on the same nodes; None if not.
    """

    code: int | None
    signal: int | None
    signalled_at: float | None
    ranks: tuple[RankVerdict, ...] = ()
    last_lines: tuple[str, ...] = ()
    start_error: tuple[str, str] | None = None
    regrouped_at: float | None = None
    oom_kills: int = 0
    stalled: str = ""
    hang: Hang | None = None
    left: tuple[str, ...] = ()


def classify(end: End) -> Verdict:
    """The verdict for `end`, of any length. Pure."""
    outcome, reason, message = _judge(end)
    if end.left and outcome == "completed":
        message += f"; processes that it left still ran, and end with the pod: {', '.join(end.left[:8])}"
    return Verdict(
        outcome,
        reason if REASON.fullmatch(reason) else UNKNOWN,
        message,
        exit_code=end.code,
        signal=end.signal,
        step=max((v.step for v in end.ranks if v.step is not None), default=None),
        saved_step=max((v.saved_step for v in end.ranks if v.saved_step is not None), default=None),
        # After a hang they say nothing of its reason, and the message names the place.
        last_lines=end.last_lines if outcome in ("failed", "misconfigured") and reason != reasons.STALLED else (),
        # Whether another rank was gone; None if no rank has written why it failed.
        peer=_lost_peer(end, reason) if outcome == "failed" else None,
        hang=end.hang if reason == reasons.STALLED else None,
    )


def _lost_peer(end: End, reason: str) -> bool | None:
    if reason == reasons.STALLED or (end.oom_kills and reason == reasons.OUT_OF_MEMORY):
        return False
    found = _first_failure(end.ranks)
    return _is_of_peer(found) if found else None


def _first_failure(ranks: tuple[RankVerdict, ...]) -> RankVerdict | None:
    """Why the program failed: the first rank that failed by itself, otherwise the first that lost another one."""
    failed = [verdict for verdict in ranks if verdict.result == "failed"]
    return min(failed, key=lambda one: (_is_of_peer(one), one.at, one.rank), default=None)


def _is_of_peer(verdict: RankVerdict) -> bool:
    return says_peer_is_gone(verdict.message)


def _judge(end: End) -> tuple[Outcome, str, str]:
    """Outcome, reason and message."""
    if end.start_error is not None:
        return "misconfigured", end.start_error[0], end.start_error[1]
    from_last = sorted(end.ranks, key=lambda one: one.rank, reverse=True)
    by_result: dict[str, RankVerdict] = {verdict.result: verdict for verdict in from_last}  # of the lowest rank
    for result, outcome, reason in _SURE:
        if found := by_result.get(result):
            return outcome, reason or found.reason, found.message or "notice to leave"
    done, failure = by_result.get("completed"), _first_failure(end.ranks)
    if done is not None and end.code == 0:  # after the end of training the program may export a model, and fail
        return "completed", done.reason or reasons.COMPLETED, done.message
    if end.stalled and (failure is None or _is_of_peer(failure)):
        return "failed", reasons.STALLED, end.stalled
    if end.signalled_at is not None and (failure is None or failure.at >= end.signalled_at):
        how = f"signal {end.signal}" if end.code is None else f"exit code {end.code}"
        how = f"notice to leave: the program ended with {how}"
        if done is not None:
            return "drained", reasons.SAVED_AND_LEFT, f"{done.message}; {how} after that"
        return "drained", reasons.LEFT_WITHOUT_SAVING, f"{how}; it did not say that it saved"
    if end.code == 0 and not (failure := failure or by_result.get("running")):
        return "completed", reasons.COMPLETED, "the program ended with exit code 0"
    if end.regrouped_at is not None and end.signal and (failure is None or failure.at >= end.regrouped_at):
        return "failed", reasons.REGROUPED, "the program was ended because the next attempt begins"
    reason, message = _failure(end, failure)
    message += "; the program then ended with exit code 0, but its training is not complete" if end.code == 0 else ""
    return "failed", reason, message if done is None else f"{done.message}, then the program failed: {message}"


def _failure(end: End, failure: RankVerdict | None) -> tuple[str, str]:
    """Reason and message. `failure`: what a rank wrote."""
    if failure is not None and failure.reason not in ("", reasons.USER_EXCEPTION):
        return failure.reason, failure.message
    if end.oom_kills and (failure is None or _is_of_peer(failure) or _LOST_WORKER.search(failure.message)):
        return reasons.OUT_OF_MEMORY, f"memory ran out: the kernel killed {end.oom_kills} of the processes on this node"
    out_of_memory = [line for line in end.last_lines if _OUT_OF_MEMORY.search(line)]
    if out_of_memory:
        return reasons.OUT_OF_MEMORY, out_of_memory[-1].strip()
    if failure is not None:
        return failure.reason or reasons.USER_EXCEPTION, failure.message
    if end.signal is not None:
        return reasons.of_signal(end.signal), f"the program was ended by {_signal_name(end.signal)}"
    own = [line for line in end.last_lines if not line.startswith(ROOT_CAUSE)]
    last = f": {last_word(own)}" if own else ""
    return reasons.USER_EXCEPTION, f"the program ended with exit code {end.code}{_of_signal(end)}{last}"


def _of_signal(end: End) -> str:
    """Words on the signal that ended a process of the program; empty if there is none."""
    if found := next((found for line in end.last_lines if (found := _ENDED_BY.match(line))), None):
        return f"; {found['which']} was ended by {_signal_name(int(found['signal']))}"
    return f" (128 + {_signal_name(end.code - 128)})" if end.code in _SHELL_CODES else ""


def _signal_name(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def exit_code(verdict: Verdict) -> int:
    """The exit code of the launcher, as of a shell: 0 if the program completed or saved, not 0 if it failed."""
    if verdict.outcome == "completed" or verdict.reason == reasons.SAVED_AND_LEFT:
        return 0
    code = verdict.exit_code
    return (128 + (verdict.signal or 0) if code is None else code) or int(verdict.outcome != "drained")
