"""The page of tiers: each profile with its tiers, what is known of them and from which job, and nodes to avoid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from html import escape
from typing import Final

from holdfast.api.knowledge import Measured, NodeFaults, Seen, ShapeKnowledge, TierKnowledge
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.core.capacity import bad_nodes
from holdfast.core.capacity.measured import median
from holdfast_cli.pages import clock
from holdfast_cli.pages.jobs_page import job_address
from holdfast_cli.pages.page import Fragment, Page
from holdfast_cli.terminal import formats

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
    head = "<h1>Tiers</h1>" + "".join(f'<p class="note">{escape(note)}</p>' for note in tiers.notes)
    if not tiers.profiles and not tiers.notes:
        head += '<p class="quiet">The cluster has no CapacityProfile.</p>'
    if tiers.own:
        many = "1 job has its own tiers" if tiers.own == 1 else f"{formats.count(tiers.own)} jobs have their own tiers"
        head += f'<p class="quiet">{many}: the page of a job shows what it learned.</p>'
    profiles = [Fragment(f"profile-{profile.metadata.name}", _profile(profile, tiers)) for profile in tiers.profiles]
    return Page("Tiers", (Fragment("tiers-head", head), *profiles))


def _profile(profile: CapacityProfile, tiers: Tiers) -> str:
    name, status = profile.metadata.name, profile.status
    known = {one.tier: one for one in status.tiers}
    rows = "".join(
        _tier(tier, known.get(tier.name), tiers.teachers.get((name, tier.name))) for tier in profile.spec.tiers
    )
    html = f"<h2>{escape(name)}</h2>" + _table(f"Tiers of {name}, best first", HEADS, rows)
    if faulty := [_node(one, tiers.namespace) for one in status.faulty_nodes if one.faults]:
        html += "<h3>Nodes that new pods avoid</h3>" + _table(f"Avoided nodes of {name}", NODE_HEADS, "".join(faulty))
    return html


def _table(caption: str, heads: Sequence[tuple[str, str, str]], rows: str) -> str:
    cells = "".join(
        f'<th scope="col"{_attribute("class", kind)}{_attribute("title", about)}>{title}</th>'
        for title, kind, about in heads
    )
    return (
        f'<div class="scroll"><table><caption class="unseen">{escape(caption)}</caption>'
        f"<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""


def _tier(tier: ProfileTier, known: TierKnowledge | None, teacher: Learned | None) -> str:
    cells = [
        (tier.kind, ""),
        (_price(tier.price_per_node_hour), "number"),
        (_state(known), ""),
        (_teacher(known, teacher), ""),
        (str(known.interruptions) if known else formats.NOTHING, "number"),
        (formats.span(known.node_time) if known and known.node_time else formats.NOTHING, "number"),
        (_median(known.acquire if known else None), "number"),
        (_median(known.start if known else None), "number"),
    ]
    return f'<tr><th scope="row">{escape(tier.name)}</th>{_cells(cells)}</tr>'


def _price(price: Decimal | None) -> str:
    """With as many digits as it was written with, and at least two."""
    if price is None:
        return formats.NOTHING
    return f"{price:,.2f}" if price == round(price, 2) else f"{price:,f}"


def _cells(cells: Sequence[tuple[str, str]]) -> str:
    return "".join(f"<td{_attribute('class', kind)}>{html}</td>" for html, kind in cells)


def _state(known: TierKnowledge | None) -> str:
    """The state and since when; below it the states by accelerators, where they differ."""
    if known is None or known.state is None:
        return '<span class="quiet">not observed yet</span>'
    lines = [_said(known.state, known.since)]
    lines += [_shape(one) for one in known.shapes if one.state is not known.state]
    if known.refusals:
        many = len({one.namespace for one in known.refusals})
        lines.append(f'<span class="quiet">{many} namespace{"s" if many > 1 else ""} got no node</span>')
    return "<br>".join(lines)


def _said(state: Seen, since: datetime | None) -> str:
    words, kind = _WORDS[state]
    return f'<span class="{kind}">{words}</span>' + (f" for {clock.age(since)}" if since else "")


def _shape(shape: ShapeKnowledge) -> str:
    return f"{shape.accelerators} accelerators: {_said(shape.state, shape.since)}"


def _teacher(known: TierKnowledge | None, teacher: Learned | None) -> str:
    """When the state was observed, and by which job. A job that observed something older is not named."""
    if known is None or known.seen_at is None:
        return formats.NOTHING
    when = f"{clock.age(known.seen_at)} ago"
    if teacher is None or teacher.at < known.seen_at:
        return when
    name = escape(f"{teacher.namespace}/{teacher.job}")
    return f'{when} by <a href="{escape(job_address(teacher.namespace, teacher.job))}">{name}</a>'


def _median(measured: Measured | None) -> str:
    return formats.span(median(measured)) if measured and measured.recent else formats.NOTHING


def _node(node: NodeFaults, namespace: str | None) -> str:
    newest_fault = node.faults[-1]
    state = bad_nodes.standing(node.faults, namespace or "")
    words = {"avoided": '<span class="bad">avoided</span>', "last choice": '<span class="warn">last choice</span>'}
    here = "only in another namespace" if namespace else "only in the namespace that saw it"
    cells = [
        (words[state] if state else f'<span class="quiet">{here}</span>', ""),
        (str(len(node.faults)), "number"),
        (escape(newest_fault.reason), ""),
        (clock.age(newest_fault.at), "number"),
    ]
    return f'<tr><th scope="row">{escape(node.node)}</th>{_cells(cells)}</tr>'
