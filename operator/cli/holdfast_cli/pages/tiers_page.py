"""The page of tiers: each profile with its tiers, what is known of them and from which job, and nodes to avoid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from holdfast.api.knowledge import Measured, NodeFaults, Seen, TierKnowledge
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.core.capacity import bad_nodes
from holdfast.core.capacity.measured import median
from holdfast_cli.pages import clock
from holdfast_cli.pages.jobs_page import job_address
from holdfast_cli.pages.page import Fragment, Page
from holdfast_cli.terminal import formats
from holdfast_model.pages.template import Markup, Template

HEADS: Final = (
    ("Tier", "", ""),
    ("Kind", "", ""),
    ("Price", "number", "of one node for an hour"),
    ("State", "", "what jobs observed last"),
    ("Learned", "", "when that was observed last, and the job that observed it, if it is still there"),
    ("Interruptions", "number", "nodes that the tier took back"),
    ("Node time", "number", "of all attempts on the tier"),
    ("Acquire", "number", "median time from a pod to its node"),
    ("Start", "number", "median time from the node to the first step"),
)
NODE_HEADS: Final = (
    ("Node", "", ""),
    ("State", "", "avoided: two faults count; last choice: one does"),
    ("Faults", "number", "attempts in the last 24 hours that the node may have ended"),
    ("Newest", "", ""),
    ("Age", "number", ""),
)
_STANDING: Final = {"avoided": "bad", "last choice": "warn", None: "quiet"}
_HTML: Final = Template(__name__)
_WORDS: Final = {
    Seen.UP: ("up", "good"),
    Seen.TOOK_BACK: ("out: took a node back", "bad"),
    Seen.REFUSED: ("out: gave no node in time", "bad"),
    Seen.UNFIT: ("not known: a pod did not fit", "quiet"),
}


@dataclass(frozen=True)
class Learned:
    """What one job observed last of one tier."""

    namespace: str
    job: str
    at: datetime


Teachers = Mapping[tuple[str, str], Learned]
"""By profile and tier, the job that observed the tier last."""


def learned(job: TrainingJob) -> dict[tuple[str, str], Learned]:
    """What a job has observed of the tiers of its profile."""
    profile, meta = job.spec.capacity.profile, job.metadata
    if profile is None:
        return {}
    seen = ((one.tier, one.seen_at) for one in job.status.tiers if one.seen_at and one.state is not Seen.UNFIT)
    return {(profile, tier): Learned(meta.namespace, meta.name, at) for tier, at in seen}


def newest(several: Iterable[Teachers]) -> dict[tuple[str, str], Learned]:
    """Of each tier the newest observation."""
    found: dict[tuple[str, str], Learned] = {}
    for one in several:
        for place, lesson in one.items():
            if place not in found or lesson.at > found[place].at:
                found[place] = lesson
    return found


@dataclass(frozen=True)
class Tiers:
    """What is known of all profiles. `own`: how many jobs have tiers of their own; `notes`: what is not seen."""

    profiles: Sequence[CapacityProfile]
    teachers: Teachers = field(default_factory=dict)
    namespace: str | None = None
    own: int = 0
    notes: Sequence[str] = ()


def tiers_page(tiers: Tiers) -> Page:
    """The page."""
    own = "1 job has its own tiers" if tiers.own == 1 else f"{formats.count(tiers.own)} jobs have their own tiers"
    is_empty = not tiers.profiles and not tiers.notes
    head = _HTML.head(notes=tiers.notes, is_empty=is_empty, own=own if tiers.own else "")
    profiles = [Fragment(f"profile-{profile.metadata.name}", _profile(profile, tiers)) for profile in tiers.profiles]
    return Page("Tiers", (Fragment("tiers-head", head), *profiles))


def _profile(profile: CapacityProfile, tiers: Tiers) -> Markup:
    name, status = profile.metadata.name, profile.status
    known = {one.tier: one for one in status.tiers}
    return _HTML.profile(
        name=name,
        tiers=[_tier(tier, known.get(tier.name), tiers.teachers.get((name, tier.name))) for tier in profile.spec.tiers],
        nodes=[_node(one, tiers.namespace) for one in status.faulty_nodes if one.faults],
        tier_heads=HEADS,
        node_heads=NODE_HEADS,
    )


class _State(NamedTuple):
    """`shape`: the accelerators that it is of, if not of all; `since`: a time as markup, or nothing."""

    shape: str
    kind: str
    words: str
    since: str


class _Teacher(NamedTuple):
    """The job that observed a tier, and its page."""

    name: str
    address: str


class _Tier(NamedTuple):
    """A row of the tiers."""

    name: str
    kind: str
    price: str
    states: Sequence[_State]
    refused: str
    seen: str
    teacher: _Teacher | None
    interruptions: str
    node_time: str
    acquire: str
    start: str


def _tier(tier: ProfileTier, known: TierKnowledge | None, teacher: Learned | None) -> _Tier:
    return _Tier(
        name=tier.name,
        kind=tier.kind,
        price=_price(tier.price_per_node_hour),
        states=list(_states(known)),
        refused=_refused(known),
        seen=_seen(known),
        teacher=_teacher(known, teacher),
        interruptions=str(known.interruptions) if known else formats.NOTHING,
        node_time=formats.span(known.node_time) if known and known.node_time else formats.NOTHING,
        acquire=_median(known.acquire if known else None),
        start=_median(known.start if known else None),
    )


def _price(price: Decimal | None) -> str:
    """With as many digits as it was written with, and at least two."""
    if price is None:
        return formats.NOTHING
    return f"{price:,.2f}" if price == round(price, 2) else f"{price:,f}"


def _states(known: TierKnowledge | None) -> Iterable[_State]:
    """What was observed, and of which accelerators, where they differ; empty if nothing was."""
    if known is None or known.state is None:
        return
    yield _state(known.state, known.since)
    for one in known.shapes:
        if one.state is not known.state:
            yield _state(one.state, one.since, f"{one.accelerators} accelerators: ")


def _state(state: Seen, since: datetime | None, shape: str = "") -> _State:
    words, kind = _WORDS[state]
    return _State(shape, kind, words, clock.age(since) if since else "")


def _refused(known: TierKnowledge | None) -> str:
    """How many namespaces, if any."""
    if known is None or known.state is None or not known.refusals:
        return ""
    many = len({one.namespace for one in known.refusals})
    return f"{many} namespace{'s' if many > 1 else ''}"


def _seen(known: TierKnowledge | None) -> str:
    """When the state was observed."""
    return formats.NOTHING if known is None or known.seen_at is None else _HTML.ago(clock.age(known.seen_at))


def _teacher(known: TierKnowledge | None, teacher: Learned | None) -> _Teacher | None:
    """None if the job observed something older than what is shown."""
    if known is None or known.seen_at is None or teacher is None or teacher.at < known.seen_at:
        return None
    return _Teacher(f"{teacher.namespace}/{teacher.job}", job_address(teacher.namespace, teacher.job))


def _median(measured: Measured | None) -> str:
    return formats.span(median(measured)) if measured and measured.recent else formats.NOTHING


class _Node(NamedTuple):
    """A row of the nodes. `age`: of the newest fault."""

    name: str
    kind: str
    state: str
    faults: str
    reason: str
    age: str


def _node(node: NodeFaults, namespace: str | None) -> _Node:
    newest_fault = node.faults[-1]
    here = "only in another namespace" if namespace else "only in the namespace that saw it"
    state = bad_nodes.standing(node.faults, namespace or "")
    return _Node(
        name=node.node,
        kind=_STANDING[state],
        state=state or here,
        faults=str(len(node.faults)),
        reason=newest_fault.reason,
        age=clock.age(newest_fault.at),
    )
