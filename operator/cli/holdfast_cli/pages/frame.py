"""What every live page has around its own fragments: the way to other pages, a banner of trouble, and actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.api.attempt import AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.status import Phase
from holdfast_cli.pages.jobs_page import job_address
from holdfast_cli.pages.page import Fragment, Page
from holdfast_model.pages.template import Markup, Template

_PLACES: Final = (("/jobs", "Jobs"), ("/tiers", "Tiers"))
_HTML: Final = Template(__name__)


@dataclass(frozen=True)
class Frame:
    """What is around a page. `here`: its path; `scope`: what is shown of which cluster; `trouble`: as of `banner`.

    `stamp` stands for all that the page shows: the stream of changes begins there.
    """

    here: str
    scope: str
    trouble: str = ""
    stamp: str = ""
    actions: Markup = Markup()


def framed(page: Page, frame: Frame) -> Page:
    """The page in its frame. Actions come below the first fragment, which is the heading."""
    first, *rest = page.fragments
    nav = _HTML.nav(first=first.id, places=_PLACES, here=frame.here, scope=frame.scope, stamp=frame.stamp)
    around = (
        Fragment("nav", nav),
        Fragment("banner", banner(frame.trouble)),
        first,
        Fragment("actions", frame.actions),
    )
    return Page(f"{page.title} · Holdfast", (*around, *rest), page.charts)


def banner(trouble: str) -> Markup:
    """What is wrong; nothing if all is well."""
    return _HTML.banner(trouble)


class _Choice(NamedTuple):
    """One of `values`, or what happens if none is chosen."""

    name: str
    label: str
    values: Sequence[str]
    default: str


class _Action(NamedTuple):
    """A button, and the dialog that it opens. `why_not`: why it is not possible now, if it is not."""

    name: str
    title: str
    question: str
    why_not: str = ""
    choices: Sequence[_Choice] = ()


def actions(job: TrainingJob, grid: Sequence[Tier], nodes: Sequence[str]) -> Markup:
    """Buttons, and for each a dialog that asks. `grid`: tiers of the job; `nodes`: on which it trains now."""
    status, name = job.status, job.metadata.name
    if status.is_over:
        return Markup()
    several = job.most_nodes > 1
    default = "choose" if several else "the first that is up"
    choices = [_Choice("tier", "To tier", [tier.name for tier in grid], default)]
    if several:
        trains = status.current is not None and status.current.state is AttemptState.RUNNING
        choices.append(_Choice("node", "Or away from node", nodes if trains else (), "choose"))
    found = [
        _Action(
            "checkpoint",
            "Save now",
            f"{name} saves a checkpoint now, and trains on.",
            "" if status.phase is Phase.RUNNING else "only a running job can save",
        ),
        _Action(
            "move",
            "Move",
            f"{name} saves, leaves its node, and continues on another one.",
            "a suspended job has no node to leave" if job.spec.suspend else "",
            choices,
        ),
    ]
    if job.spec.suspend:
        found.append(_Action("resume", "Resume", f"{name} continues from its newest checkpoint."))
    else:
        ask = f"{name} saves and gives its nodes back. It waits until it is resumed."
        found.append(_Action("suspend", "Suspend", ask))
    return _HTML.actions(address=job_address(job.metadata.namespace, name), found=found)
