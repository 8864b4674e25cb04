"""Cases for edits of a job: what an attempt runs that the spec no longer says, and what a person has to correct."""

from typing import Any

from tests.support.decisions.snapshots import (
    OTHER,
    TIERS,
    at,
    attempt,
    container,
    drain,
    ended,
    job,
    pending,
    placed,
    pod,
    profile,
    snapshot,
    spec,
    status,
    stepped,
    verdict,
)
from tests.unit.core.table.gang_cases import WORLD, member, says
from tests.unit.core.table.row_cases import ACQUIRING, DRAINED, DRAINING, FENCED, INTENDED, RUNNING, STARTING, Case

from holdfast.api.attempt import AttemptRecord, EndKind, PodRecord
from holdfast.api.status import Ledger, Misconfigured
from holdfast.core.made_from import made_from, pods_hash
from holdfast.core.observe.snapshot import Refusal

TRAINER = spec()["trainer"]
STORAGE = spec()["checkpoint"]["storage"]
A, B = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
FLIPPED = FENCED.model_copy(update={"made_from": OTHER})
RAN = Ledger(ran_at=at(-9000))
SECOND = {"raised_at": at(-100), "created_at": at(-99), "scheduled_at": at(-90), "started_at": at(-20)}
NOT_FROM_FOLDER = verdict("misconfigured", "CheckpointNotFromFolder", message="step 700 is not from the folder")


def runs(fields: dict[str, Any], **changes: Any) -> Any:
    """The running attempt of a job whose spec had these fields when its pods were made."""
    return FENCED.model_copy(update={"made_from": made_from(job(**fields).spec), **changes})


def wrong(**changes: Any) -> Any:
    """The status of a paused job in whose spec nothing was changed since; `changes` are of the spec that was wrong."""
    before = job(**changes)
    pods = pods_hash(made_from(before.spec), snapshot(before).grid)
    found = Misconfigured(reason="CheckpointNotFromFolder", tier="spot", at=at(-50), pods=pods)
    return status(misconfigured=found, suspended_at=at(-50), attempt=2, ledger=RAN)


def second(*pods: Any, state: Any = RUNNING, ledger: Ledger = RAN, **changes: Any) -> Any:
    """A snapshot of the second attempt of a job that has run."""
    given = {name: changes.pop(name) for name in ("refusal", "profile") if name in changes}
    times = SECOND if state is not ACQUIRING else {"raised_at": at(-100)}
    return snapshot(job(status(attempt(2, state, **times), ledger=ledger), **changes), *pods, **given)


def stuck(waits: Any, *, times: int) -> Any:
    """A snapshot of an attempt of a job that has run, with a container that waits; so did `times` attempts before."""
    before = tuple(
        AttemptRecord(number=80 - times + n, tier="spot", kind=EndKind.INTERRUPTION, reason=waits.waiting,
                      message=waits.message, raised_at=at(-900), ended_at=at(-600), fruitless=True)
        for n in range(times)
    )  # fmt: skip
    counts = {"fruitless_interruptions": times, "fruitless_attempts": times}
    given = status(
        attempt(90, STARTING, raised_at=at(-700), scheduled_at=at(-690)), history=before, ledger=RAN, **counts
    )
    return snapshot(job(given), placed(90, trainer=waits))


REFUSED = container(waiting="ErrImagePull", message="x: not found")
NO_SECRET = container(waiting="CreateContainerConfigError", message='secret "s3" not found')
TWO = {"trainer": {**TRAINER, "nodes": 2}}
OF_TWO = runs(TWO, nodes=2, world=WORLD, pods=(PodRecord(uid="u-vit-1-0", node="n1"),))
PAIR = (member(1, 0), member(1, 1))
INVALID = Refusal(2, at(-1), 422, "Invalid", "spec.containers[0].resources: Invalid value")
AT_ONCE = ended(2, 1, NOT_FROM_FOLDER)

GOAL = {"goal": {"steps": 7}}

CASES = [
    # --- another program, or another storage
    Case("another trainer while the operator was away", snapshot(job(status(FLIPPED)), pod(), reports=[stepped()]),
         ("edited",),
         {"state": DRAINING, "reason": "SpecChanged", "successor": 2, "created": [], "events": ["SpecChanged"],
          "orders": [("drain", 1)], "deadline": at(100)}),
    Case("another trainer while it starts",
         snapshot(job(status(attempt(state=STARTING, made_from=OTHER))), placed()), ("edited", "no answer"),
         {"state": DRAINING, "deleted": [("u-1", 100)]}),
    Case("another trainer while it waits for a node",
         snapshot(job(status(attempt(state=ACQUIRING, made_from=OTHER))), pending()),
         ("given up before start", "begin"),
         {"state": INTENDED, "attempt": 2, "deleted": [("u-1", None)], "end": (1, EndKind.STOPPED, "SpecChanged"),
          "counts": (0, 0, 0)}),
    Case("another trainer while it waits to begin",
         snapshot(job(status(attempt(2, INTENDED, made_from=OTHER, retry_at=at(60))))),
         ("given up before start", "begin", "create"), {"attempt": 3, "created": [3], "retry": None}),
    Case("the attempt of another program has left",
         snapshot(job(status(attempt(state=DRAINING, made_from=OTHER,
                                     drain=drain(reason="SpecChanged", kind=EndKind.STOPPED)),
                             successor=attempt(2, INTENDED))), ended(1, 0, DRAINED)), ("ended", "create"),
         {"attempt": 2, "created": [2], "end": (1, EndKind.STOPPED, "SpecChanged"), "counts": (0, 0, 0)}),
    Case("a successor of another program",
         snapshot(job(status(FENCED, successor=attempt(2, ACQUIRING, predecessor=1, made_from=OTHER))), pod(),
                  pending(2), reports=[stepped()]), ("successor not wanted",),
         {"state": RUNNING, "successor": None, "deleted": [("u-2", None)]}),
    Case("fewer nodes while the operator was away", snapshot(job(status(OF_TWO)), *PAIR, members=says(*PAIR)),
         ("edited",), {"state": DRAINING, "successor": 2, "reason": "SpecChanged"}),
    Case("another goal", snapshot(job(status(runs(GOAL))), pod(), reports=[stepped()]), ("edited", "create beside"),
         {"state": DRAINING, "successor": 2, "reason": "SpecChanged", "created": [2]}),
    Case("another goal while it waits for a node",
         snapshot(job(status(runs(GOAL, state=ACQUIRING, fenced=False))), pending()),
         ("given up before start", "begin"), {"state": INTENDED, "attempt": 2}),
    # --- what is no other program
    Case("another goal of a program that saves nothing", snapshot(job(status(runs(GOAL, fenced=False))), pod()), (),
         {"state": RUNNING}),
    Case("the list of variables in another order",
         snapshot(job(status(runs({"trainer": {**TRAINER, "env": [A, B]}})), trainer={**TRAINER, "env": [B, A]}), pod(),
                  reports=[stepped()]), (), {"state": RUNNING}),
    Case("another interval of saves", snapshot(job(status(runs({})), checkpoint={"storage": STORAGE, "every": "1h"}),
         pod(), reports=[stepped()]), (), {"state": RUNNING, "events": ["SettingsPending"]}),
    Case("another interval of saves before its pod is made",
         snapshot(job(status(attempt(2, INTENDED, made_from=made_from(job().spec))),
                      checkpoint={"storage": STORAGE, "every": "1h"})), ("create", "create"),
         {"attempt": 3, "created": [3]}),
    # --- misconfigured after it has run
    Case("misconfigured after the job has run", second(AT_ONCE), ("ended", "suspended"),
         {"phase": "Suspended", "reason": "CheckpointNotFromFolder", "state": None, "created": [], "counts": (0, 0, 0),
          "end": (2, EndKind.MISCONFIGURED, "CheckpointNotFromFolder")}),
    Case("misconfigured before the job has run", second(AT_ONCE, ledger=Ledger()), ("ended",),
         {"phase": "Failed", "reason": "CheckpointNotFromFolder"}),
    Case("misconfigured, and corrected while it started",
         snapshot(job(status(attempt(2, made_from=made_from(job(checkpoint={"storage": STORAGE, "folder": "/o"}).spec),
                                     **SECOND), ledger=RAN)), AT_ONCE), ("ended", "corrected", "begin", "create"),
         {"attempt": 3, "created": [3]}),
    Case("misconfigured, and nothing was corrected", snapshot(job(wrong())), (),
         {"phase": "Suspended", "reason": "CheckpointNotFromFolder", "created": [], "wake": at(3600)}),
    Case("misconfigured, and corrected",
         snapshot(job(wrong(checkpoint={"storage": STORAGE, "folder": "/o"}))),
         ("corrected", "resume", "begin", "create"), {"attempt": 3, "created": [3]}),
    Case("misconfigured, and the tier was corrected",
         snapshot(job(wrong(), capacity={"tiers": [{**TIERS[0], "nodeSelector": {"tier": "large"}}]})),
         ("corrected", "resume", "begin", "create"), {"attempt": 3, "created": [3]}),
    Case("misconfigured, and its tier was removed while it started",
         snapshot(job(status(attempt(2, **SECOND), ledger=RAN), capacity={"tiers": list(TIERS[1:])}), AT_ONCE),
         ("ended", "corrected", "begin", "create"), {"attempt": 3, "tier": "dedicated", "created": [3]}),
    Case("misconfigured, and another tier goes first", snapshot(job(wrong(), capacity={"tiers": [TIERS[1], TIERS[0]]})),
         ("corrected", "resume", "begin", "create"), {"attempt": 3, "tier": "dedicated", "created": [3]}),
    Case("misconfigured, and its tier has another price in its profile",
         snapshot(job(wrong(), capacity={"profile": "grid"}),
                  profile=profile({**TIERS[0], "pricePerNodeHour": "9"}, *TIERS[1:])),
         (), {"phase": "Suspended"}),
    Case("misconfigured, and a person suspends it", snapshot(job(wrong(), suspend=True)), ("corrected",),
         {"phase": "Suspended", "reason": "Suspended"}),
    Case("the image is refused after the job has run", stuck(REFUSED, times=1), ("bad container",),
         {"state": INTENDED, "end": (90, EndKind.INTERRUPTION, "ErrImagePull")}),
    Case("the image is refused again and again after the job has run", stuck(REFUSED, times=4),
         ("bad container", "suspended"), {"phase": "Suspended", "reason": "ErrImagePull"}),
    Case("the image can have no such name after the job has run", stuck(container(waiting="InvalidImageName"), times=0),
         ("bad container", "suspended"), {"phase": "Suspended", "reason": "InvalidImageName"}),
    Case("a Secret is missing after the job has run", stuck(NO_SECRET, times=18), ("bad container",),
         {"state": INTENDED, "end": (90, EndKind.INTERRUPTION, "CreateContainerConfigError")}),
    Case("a Secret is missing at the last try that the user allows", stuck(NO_SECRET, times=19),
         ("bad container", "suspended"), {"phase": "Suspended", "reason": "CreateContainerConfigError"}),
    Case("the pod is invalid after the job has run", second(state=ACQUIRING, refusal=INVALID),
         ("pod refused", "suspended"), {"phase": "Suspended", "reason": "PodInvalid"}),
]  # fmt: skip
