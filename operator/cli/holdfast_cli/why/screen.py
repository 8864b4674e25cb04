"""`holdfast why` on a terminal: the choice, and every figure behind it. Pure."""

from datetime import timedelta
from math import inf

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.core.capacity.choose import Answer
from holdfast.core.capacity.outlook import Figures
from holdfast.core.capacity.policy_input import TierView
from holdfast_cli.jobs import costs
from holdfast_cli.jobs import view as render
from holdfast_cli.jobs.timeline import KIND_STYLES, timeline
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_cli.why.reasons import Reasons, age

HERE, WANTED, WATCHED = "●", "→", "?"
ASSUMED = "~"
UNSEEN = "nodes were not read: this user may not list them. The operator may know more than these figures"
_RISKS = {"True": ("yes", "bold red"), "Unknown": ("unknown", "yellow"), "False": ("no", "green")}


def show(out: Console, found: Reasons) -> None:
    """Print the whole answer."""
    sections: list[tuple[str, RenderableType | None]] = [
        ("", heading(found)),
        ("what the policy says now", says_now(found)),
        ("what a tier is worth", _with_legend(worth(found))),
        ("which tiers are up, and how soon training starts", _with_legend(chances(found))),
        ("work, time and money", figures(found)),
        ("cost", costs.costs(found.job) if found.idle else None),
        ("timeline", timeline(found.job, found.now, found.grid)),
    ]
    for title, body in sections:
        if body is not None:
            if title:
                out.print(Text(f"\n{title.upper()}", style="bold"))
            out.print(Padding(body, (0, 0, 0, 2 if title else 0), expand=False))


def heading(found: Reasons) -> RenderableType:
    """Where the job is, and the operator's last decision, its time and reason."""
    meta, status = found.job.metadata, found.job.status
    title = Text.assemble((f"{meta.namespace}/{meta.name}", "bold"), "  ", render.phase_text(status.phase))
    if status.tier:
        where = f", node {status.node}" if status.node else ""
        title.append(f"  tier {status.tier}{where}, attempt {status.attempt}")
    lines = [title]
    if decision := status.decision:
        lines.append(Text(f"decided {formats.ago(decision.at, found.now)}: {decision.action}: {decision.message}"))
    else:
        lines.append(Text("no decision yet", style="dim"))
    if not found.idle:
        lines.append(Text(render.what_next(found.job), style="dim"))
    return Group(*lines)


def says_now(found: Reasons) -> RenderableType:
    """The policy's answer, what it lacks, and when it runs again."""
    capacity = found.job.spec.capacity
    if found.idle:
        return Text(f"There is nothing to choose: {found.idle}.")
    if (answer := found.answer) is None:
        text = f"Nothing can be chosen: capacity profile {capacity.profile} does not exist. Create it, or name another"
        return Text(f"{text} one in spec.capacity.profile.", style="red")
    choice = answer.choice
    instead = f", in place of {capacity.policy}" if answer.policy != capacity.policy else ""
    lines = [Text.assemble((answer.policy, "bold"), f"{instead}: {choice.reason}")]
    if answer.missing:
        lines.append(Text(f"{answer.missing.message}; until then tiers are tried in their order", style="yellow"))
    lines += [Text(text, style="yellow") for text in found.notes]
    if found.nodes is None:
        lines.append(Text(UNSEEN, style="yellow"))
    lines.append(Text(_again(found, answer), style="dim"))
    return Group(*lines)


def _again(found: Reasons, answer: Answer) -> str:
    soon = formats.span(found.ask_at - found.now if found.ask_at else None)
    said = f"asked again within {soon}, or when a tier comes up, goes out or is lost"
    if rather := [name for name in answer.better if name != answer.outlook.view.tier]:
        said += f"; it prefers {', '.join(rather)}"
    return f"{said}; {answer.probe} is worth watching" if answer.probe else said


def figures(found: Reasons) -> RenderableType | None:
    """Names and values: work left, deadline, slack, risk, budget, cost."""
    rows = figure_rows(found)
    if not rows:
        return None
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, value in rows:
        grid.add_row(Text(name, style="dim"), value)
    return grid


def figure_rows(found: Reasons) -> list[tuple[str, Text]]:
    """The names and values of `figures`."""
    return [*_work(found), *_time(found), *_money(found)] if not found.idle else _budget(found)


def _work(found: Reasons) -> list[tuple[str, Text]]:
    if found.answer is None:
        return []
    view, work = found.answer.outlook.view, found.answer.outlook.work
    if work.goal is None:
        left = "unknown: set spec.goal.steps, or let the trainer report its goal"
    else:
        left = f"{formats.count(max(work.goal - work.done, 0))} of {formats.count(work.goal)} steps"
        if work.pace is None:
            left += "; the time for one step is not known yet"
        else:
            left = f"{_span(view.work)}: {left}, {_pace(work.pace)} each on {work.reference}"
    rows = [("work left", Text(left))]
    if view.work < inf:
        rows.append(("work at risk", Text(f"{_span(view.at_risk)}, and a changeover")))
    if view.changing:
        rows.append(("on its way", Text(f"{_span(view.changing)} at most to the first step here")))
    return rows


def _time(found: Reasons) -> list[tuple[str, Text]]:
    at = found.job.spec.capacity.deadline
    if at is None or found.answer is None:
        return []
    left = f"in {formats.span(at - found.now)}" if at > found.now else f"{formats.ago(at, found.now)}"
    rows = [("deadline", Text(f"{formats.moment(at)}, {left}"))]
    if found.forecast.slack is not None:
        slack = render.slack_text(found.forecast)
        if found.net and found.forecast.late is None:
            slack.append(f" can be wasted before only {found.net.tier.name} still meets the deadline", style="")
            slack.append(f"; {_span(found.net.reserve)} of it is reserved for the move there", style="")
        rows.append(("slack", slack))
    if found.risk:
        word, style = _RISKS[found.risk.status]
        rows.append(("deadline at risk", Text.assemble((word, style), f" ({found.risk.reason}): {found.risk.message}")))
    return rows


def _money(found: Reasons) -> list[tuple[str, Text]]:
    rows = _budget(found)
    spent, cost = found.ledger.spent, found.forecast.cost
    if spent or cost:
        total = f", {formats.money(cost)} expected in the end" if cost is not None else ""
        rows.append(("cost", Text(f"{formats.money(spent)} so far{total}")))
    if saved := costs.saving(found.ledger):
        rows.append(("savings", Text(str(saved))))
    return rows


def _budget(found: Reasons) -> list[tuple[str, Text]]:
    budget = found.job.spec.capacity.budget
    if budget is None:
        return []
    if (outlay := found.budget) is None:
        text = Text(costs.spent_words(found.ledger.spent, budget))
    else:
        text = Text(outlay.reason, style="bold red" if outlay.pause else "yellow" if outlay.short else "")
    text.append(f"; {formats.money(budget - found.ledger.spent)} left", style="")
    return [("budget", text)]


# --- a row for each tier ----------------------------------------------------------------------------------------------


def _with_legend(table: tuple[Fitting, Text]) -> RenderableType | None:
    """The table above its legend; None if it has no rows."""
    return Group(*table) if table[0].rows else None


def worth(found: Reasons) -> tuple[Fitting, Text]:
    """Price, speed, interruptions, and the expected cost of an hour's work; with the legend."""
    columns = (
        Column("TIER", loose=True),
        Column("KIND"),
        Column("PRICE", right=True),
        Column("SPEED", right=True),
        Column("STEP", right=True),
        Column("INTERRUPTIONS", right=True),
        Column("LIFE", right=True),
        Column("HOUR OF\nWORK", right=True),
    )
    rows = []
    for view, made in found.rows:
        cost = found.hour_of_work(view)
        rows.append(
            [
                _name(found, view),
                Text(view.kind, style=KIND_STYLES[view.kind]),
                Text(formats.NOTHING if view.price is None else formats.money(view.price)),
                Text(f"{'' if made.pace else ASSUMED}{view.speed:.2f}"),
                Text(_pace(made.pace) if made.pace else formats.NOTHING),
                Text(f"{made.interruptions} in {formats.span(made.node_time)}"),
                Text(f"{'' if made.node_time else ASSUMED}{_span(view.lifetime)}"),
                Text(formats.NOTHING if cost is None else f"{cost:,.2f}"),
            ]
        )
    return Fitting(columns, rows), _legend(found)


def chances(found: Reasons) -> tuple[Fitting, Text]:
    """Whether a tier is up, and how long it takes until training starts there; with the legend."""
    columns = (
        Column("TIER", loose=True),
        Column("NOW"),
        Column("NODES"),
        Column("WATCHING"),
        Column("ACQUIRE", right=True),
        Column("CHANGEOVER", right=True),
    )
    rows = []
    for view, made in found.rows:
        acquire = f"{'' if made.acquire_measured else ASSUMED}{_range(made.acquire, made.worst_acquire)}"
        typical, worst = timedelta(seconds=view.changeover), timedelta(seconds=view.worst_changeover)
        changeover = f"{'' if made.acquire_measured and made.start_measured else ASSUMED}{_range(typical, worst)}"
        cells = [_now(view), _nodes(found, made), Text("billed" if made.billed else "free")]
        rows.append([_name(found, view), *cells, Text(acquire), Text(changeover)])
    legend = "ACQUIRE until there is a node, CHANGEOVER until the first step: typical–worst\n"
    legend += "WATCHING: whether it costs money to see that the tier is up again\n"
    legend += "NODES: since when enough can take the pods"
    legend += "" if found.room_known else "; what others hold is not known"
    return Fitting(columns, rows), Text(legend, style="dim")


def _name(found: Reasons, view: TierView) -> Text:
    """The tier with a sign: the job is here, is wanted here, or watches the tier."""
    answer = found.answer
    here = answer is not None and answer.outlook.view.tier == view.name
    wanted = answer is not None and answer.choice.tier == view.name
    watched = answer is not None and answer.probe == view.name
    sign = HERE if here else WANTED if wanted else WATCHED if watched else " "
    removed = "" if any(tier.name == view.name for tier in found.grid) else " (removed)"
    return Text(f"{sign} {view.name}{removed}", style="bold" if here or wanted else "")


def _legend(found: Reasons) -> Text:
    said = [f"{HERE} the job is here"]
    answer = found.answer
    if answer and answer.choice.tier not in (None, answer.outlook.view.tier):
        said.append(f"{WANTED} the policy wants it here")
    if answer and answer.probe not in (None, answer.choice.tier, answer.outlook.view.tier):
        said.append(f"{WATCHED} worth watching")
    if answer and answer.outlook.view.tier is None:
        said = said[1:]
    reference = answer.outlook.work.reference if answer else None
    said.append(f"SPEED: relative to {reference}" if reference else "SPEED: not measured yet")
    said.append(f"{ASSUMED} assumed, not measured")
    columns = "INTERRUPTIONS in node time   LIFE expected of a node   HOUR OF WORK: its cost"
    return Text(f"{'   '.join(said)}\n{columns}", style="dim")


def _now(view: TierView) -> Text:
    if view.available is None:
        return Text("unknown", style="dim")
    word, style = ("up", "green") if view.available else ("out", "yellow")
    return Text(word if view.spell_age is None else f"{word} {_span(view.spell_age)}", style=style)


def _nodes(found: Reasons, made: Figures) -> Text:
    if found.nodes is None:
        return Text("not seen", style="dim")
    stand = age(made.node_since, found.now)
    return Text("none", style="dim") if stand is None else Text(f"ready {formats.span(stand)}")


def _range(typical: timedelta, worst: timedelta) -> str:
    return f"{formats.span(typical)}–{formats.span(worst)}"


def _pace(seconds: float) -> str:
    """`2.00s`, `48ms`, `1m12s` for a step."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.2f}s" if seconds < 60 else formats.span(timedelta(seconds=seconds))


def _span(seconds: float) -> str:
    return formats.NOTHING if seconds == inf else formats.span(timedelta(seconds=seconds))
