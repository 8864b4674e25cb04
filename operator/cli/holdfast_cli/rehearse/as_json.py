"""A rehearsal as JSON, for the tests of a team."""

from dataclasses import asdict
from typing import Any

from holdfast_cli.rehearse.costs import bytes_of_saves
from holdfast_cli.rehearse.left import Start
from holdfast_cli.rehearse.rehearsal import Rehearsed
from holdfast_protocol.document import camel_case


def as_json(done: Rehearsed) -> dict[str, Any]:
    """`passed` and `verdict` (see `Verdict.as_json`); what each of the `interruptions` has cost, and those `notTried`;
    `saves`, with the bytes that each has moved; what is `notSaved`; `starts` of the interrupted run.
    """
    moved = bytes_of_saves(done.undisturbed.made)
    not_saved = done.undisturbed.not_saved
    return {
        "passed": done.is_good,
        "verdict": done.verdict.as_json(),
        "interruptions": [
            {
                "kind": str(cost.kind),
                "atStep": cost.at,
                "wentOnFrom": cost.went_on,
                "lostSteps": cost.lost,
                "secondsToFirstStep": cost.seconds,
            }
            for cost in done.costs
        ],
        "notTried": {str(kind): why for kind, why in done.interrupted.not_tried.items()},
        "notes": list(dict.fromkeys((*done.undisturbed.notes, *done.interrupted.notes))),
        "saves": {"count": len(moved), "bytes": moved},
        "notSaved": {
            "excluded": dict(not_saved.excluded),
            "outside": list(not_saved.outside),
            "unknown": not_saved.unknown,
        },
        "starts": [_start(start) for start in done.interrupted.left.starts],
    }


def _start(start: Start) -> dict[str, Any]:
    return {camel_case(name): value for name, value in asdict(start).items()}
