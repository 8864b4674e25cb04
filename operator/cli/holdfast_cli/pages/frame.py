"""What every live page has around its own fragments: the way to other pages, a banner of trouble, and actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from holdfast.api.attempt import AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.status import Phase
from holdfast_cli.pages.jobs_page import job_address
from holdfast_cli.pages.page import Fragment, Page

_PLACES: Final = (("/jobs", "Jobs"), ("/tiers", "Tiers"))


@dataclass(frozen=True)
class Frame:
    """What is around a page. `here`: its path; `scope`: what is shown of which cluster; `trouble`: as of `banner`.

    `stamp` stands for all that the page shows: the stream of changes begins there.
    """

    here: str
    scope: str
    trouble: str = ""
    stamp: str = ""
    actions: str = ""


def framed(page: Page, frame: Frame) -> Page:
    """The page in its frame. Actions come below the first fragment, which is the heading."""
    first, *rest = page.fragments
    around = (
        Fragment("nav", _nav(frame, first.id)),
        Fragment("banner", banner(frame.trouble)),
        first,
        Fragment("actions", frame.actions),
    )
    return Page(f"{page.title} · Holdfast", (*around, *rest), page.charts)


def _nav(frame: Frame, first: str) -> str:
    links = "".join(f'<li><a href="{path}"{_current(path, frame.here)}>{title}</a></li>' for path, title in _PLACES)
    return (
        f'<a class="skip" href="#{escape(first)}">Skip to the content</a>'
        f'<nav aria-label="Pages"><span class="brand">Holdfast</span><ul>{links}</ul></nav>'
        f'<span class="scope">{escape(frame.scope)}</span>'
        f'<span class="live" id="live" data-stamp="{escape(frame.stamp)}">live</span>'
        '<span class="unseen" role="status" id="said"></span>'
    )


def _current(path: str, here: str) -> str:
    if path == here:
        return ' aria-current="page"'
    return ' aria-current="true"' if here.startswith(f"{path}/") else ""


def banner(trouble: str) -> str:
    """HTML that says what is wrong; nothing if all is well."""
    return f'<p class="banner">{escape(trouble)}</p>' if trouble else ""


@dataclass(frozen=True)
class _Action:
    """A button, and the dialog that it opens. `why_not`: why it is not possible now, if it is not."""

    name: str
    title: str
    question: str
    why_not: str = ""

    def html(self, job: TrainingJob) -> str:
        """Both."""
        where = escape(f"{job_address(job.metadata.namespace, job.metadata.name)}/{self.name}")
        off = f' disabled title="{escape(self.why_not)}"' if self.why_not else ""
        return (
            f'<button type="button" id="open-{self.name}" data-opens="ask-{self.name}"{off}>{self.title}</button>'
            f'<dialog id="ask-{self.name}" aria-labelledby="title-{self.name}">'
            f'<form method="post" action="{where}" data-action><h2 id="title-{self.name}">{self.title}?</h2>'
            f'{self.question}<p class="refused" role="alert"></p>'
            '<div class="answers"><button type="button" data-closes autofocus>Cancel</button>'
            f'<button type="submit" class="do">{self.title}</button></div></form></dialog>'
        )


def actions(job: TrainingJob, grid: Sequence[Tier], nodes: Sequence[str]) -> str:
    """Buttons, and for each a dialog that asks. `grid`: tiers of the job; `nodes`: on which it trains now."""
    status, name = job.status, escape(job.metadata.name)
    if status.phase is not None and status.phase.final:
        return ""
    several = job.spec.trainer.nodes > 1
    choices = _choice("tier", "To tier", [tier.name for tier in grid], "choose" if several else "the first that is up")
    if several:
        trains = status.current is not None and status.current.state is AttemptState.RUNNING
        choices += _choice("node", "Or away from node", nodes if trains else (), "choose")
    found = [
        _Action(
            "checkpoint",
            "Save now",
            f"<p>{name} saves a checkpoint now, and trains on.</p>",
            "" if status.phase is Phase.RUNNING else "only a running job can save",
        ),
        _Action(
            "move",
            "Move",
            f"<p>{name} saves, leaves its node, and continues on another one.</p>{choices}",
            "a suspended job has no node to leave" if job.spec.suspend else "",
        ),
    ]
    if job.spec.suspend:
        found.append(_Action("resume", "Resume", f"<p>{name} continues from its newest checkpoint.</p>"))
    else:
        ask = f"<p>{name} saves and gives its nodes back. It waits until it is resumed.</p>"
        found.append(_Action("suspend", "Suspend", ask))
    html = "".join(action.html(job) for action in found)
    return f'<div class="actions" role="group" aria-label="Actions">{html}</div>'


def _choice(name: str, label: str, values: Sequence[str], default: str) -> str:
    options = [f'<option value="">{escape(default)}</option>']
    options += [f'<option value="{escape(value)}">{escape(value)}</option>' for value in values]
    return f'<p><label>{label} <select name="{name}">{"".join(options)}</select></label></p>'
