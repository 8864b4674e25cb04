"""The Grafana dashboard of these metrics. `make crds` writes it into the chart."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.serve.grafana import Panel, Query, choice, dashboard, thresholds

JOBS = 'namespace=~"$namespace", job=~"$job"'
HOUR = 3600
GREEN, ORANGE, RED = "green", "orange", "red"


def each(metric: str, *labels: str, where: str = JOBS) -> str:
    """The series of each job, once: while one operator takes over from another, both may tell of it."""
    return f"max by ({', '.join(('namespace', 'job', *labels))}) ({metric}{{{where}}})"


def total(metric: str) -> str:
    """The sum over all jobs that are chosen."""
    return f"sum({each(metric)})"


def figure(title: str, about: str, expr: str, **defaults: Any) -> Panel:
    """One large number."""
    plain = {"color": {"mode": "thresholds"}, "thresholds": thresholds((None, "text")), **defaults}
    options = {"graphMode": "none", "colorMode": "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return Panel(title, about, "stat", (Query(expr),), width=4, height=4, defaults=plain, options=options)


STACKED = {"stacking": {"mode": "normal"}, "fillOpacity": 40, "lineWidth": 1}
BARS = {"drawStyle": "bars", "stacking": {"mode": "normal"}, "fillOpacity": 80, "lineWidth": 0}
STEPS = {"lineInterpolation": "stepAfter"}
MONEY = {"unit": "none", "decimals": 2}
TABLE = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]}}
DONE = 'holdfast_job_phase{phase=~"Completed|Failed"} == 1'
AT_RISK = each("holdfast_job_condition", where=f'condition=~"DeadlineAtRisk|BudgetAtRisk", {JOBS}')
GOODPUT = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1}
UP_AND_OUT = [
    {
        "type": "value",
        "options": {"0": {"text": "out", "color": RED, "index": 0}, "1": {"text": "up", "color": GREEN, "index": 1}},
    }
]

ECONOMY = (
    figure("Spent", "Money for nodes so far, all jobs that are chosen.", total("holdfast_job_spent"), **MONEY),
    figure(
        "Saved", "Against the same steps on dedicated nodes only; negative if more was spent.",
        total("holdfast_job_saved"), thresholds=thresholds((None, RED), (0, GREEN)), **MONEY,
    ),
    figure(
        "Expected total", "What the jobs will have cost in the end; what was spent, where that is not known.",
        f"sum({each('holdfast_job_expected_cost')} or {each('holdfast_job_spent')})", **MONEY,
    ),
    figure(
        "Goodput", "Time in steps that were not lost over all time since the first one; mean over jobs.",
        f"avg({each('holdfast_job_goodput_ratio')})",
        thresholds=thresholds((None, RED), (0.8, ORANGE), (0.95, GREEN)), **GOODPUT,
    ),
    figure("Steps lost", "Steps that had to be done again.", total("holdfast_job_steps_lost_total"), decimals=0),
    figure(
        "Jobs at risk", "Jobs that may miss their deadline, or whose budget is not expected to last.",
        f"count(({AT_RISK} == 1) unless on (namespace, job) ({DONE})) or vector(0)",
        thresholds=thresholds((None, GREEN), (1, ORANGE)), decimals=0,
    ),
    Panel(
        "Spend by tier", "Money for nodes so far, by tier, all jobs that are chosen.", "timeseries",
        (Query(f"sum by (tier) ({each('holdfast_job_tier_spent', 'tier')})", "{{tier}}"),),
        defaults=MONEY, custom=STACKED, options=TABLE,
    ),
    Panel(
        "Expected total and budget", "What each job has cost, what it will have cost when it is done, and its budget.",
        "timeseries",
        (
            Query(each("holdfast_job_spent"), "{{namespace}}/{{job}} spent"),
            Query(each("holdfast_job_expected_cost"), "{{namespace}}/{{job}} expected"),
            Query(each("holdfast_job_budget"), "{{namespace}}/{{job}} budget"),
        ),
        defaults=MONEY, options=TABLE,
        overrides=(
            {
                "matcher": {"id": "byRegexp", "options": ".* budget$"},
                "properties": [
                    {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}},
                    {"id": "color", "value": {"mode": "fixed", "fixedColor": RED}},
                ],
            },
        ),
    ),
    Panel(
        "Slack", "Time that may yet be wasted before only the surest tier makes the deadline; below zero, by how much "
        "the deadline will be missed.", "timeseries",
        (
            Query(
                f"{each('holdfast_job_slack_seconds')} - {each('holdfast_job_late_seconds')}", "{{namespace}}/{{job}}"
            ),
        ),
        defaults={"unit": "s", "thresholds": thresholds((None, RED), (0, ORANGE), (HOUR, GREEN))},
        custom={"thresholdsStyle": {"mode": "area"}}, options=TABLE,
    ),
    Panel(
        "Attempts by tier", "Attempts that had a node, all jobs that are chosen.", "timeseries",
        (Query(f"sum by (tier) ({each('holdfast_job_tier_attempts_total', 'tier')})", "{{tier}}"),),
        defaults={"decimals": 0}, custom={**STACKED, **STEPS}, options=TABLE,
    ),
    Panel(
        "Moves by reason", "Attempts that left their node before training was complete, in the whole cluster, by the "
        "kind of tier that they left.", "timeseries",
        (
            Query(
                "sum by (tier_kind, reason) (increase(holdfast_moves_total[$__rate_interval])) > 0",
                "{{tier_kind}}: {{reason}}",
            ),
        ),
        defaults={"decimals": 1}, custom=BARS, options=TABLE, interval="10m",
    ),
    Panel(
        "Tiers of capacity profiles", "Whether a tier was last seen to give nodes; a gap where nobody knows.",
        "state-timeline",
        (Query("max by (profile, tier) (holdfast_profile_tier_up)", "{{profile}}/{{tier}}"),),
        defaults={"mappings": UP_AND_OUT, "color": {"mode": "thresholds"},
               "thresholds": thresholds((None, RED), (1, GREEN))},
        options={"showValue": "auto", "mergeValues": True},
    ),
    Panel(
        "Recovery by phase, median", "From a last step until what was lost is done again, in the whole cluster; over "
        "the six hours before each moment.", "timeseries",
        (
            Query(
                "histogram_quantile(0.5, sum by (le, phase) (rate(holdfast_recovery_seconds_bucket[6h])))", "{{phase}}"
            ),
        ),
        defaults={"unit": "s"}, custom=STACKED, options=TABLE,
    ),
    Panel(
        "Recovery by phase, 95th percentile", "Over the whole time that is shown, in the whole cluster.", "bargauge",
        (
            Query(
                "histogram_quantile(0.95, sum by (le, phase) (increase(holdfast_recovery_seconds_bucket[$__range])))",
                "{{phase}}", instant=True,
            ),
        ),
        defaults={"unit": "s", "min": 0, "color": {"mode": "palette-classic"}},
        options={"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}},
    ),
    Panel(
        "Steps lost by job", "Steps that had to be done again.", "timeseries",
        (Query(each("holdfast_job_steps_lost_total"), "{{namespace}}/{{job}}"),),
        defaults={"decimals": 0}, custom=STEPS, options=TABLE,
    ),
    Panel(
        "Goodput by job", "Time in steps that were not lost over all time since the first one.", "timeseries",
        (Query(each("holdfast_job_goodput_ratio"), "{{namespace}}/{{job}}"),),
        defaults=GOODPUT, options=TABLE,
    ),
)  # fmt: skip

ROWS: Mapping[str, Sequence[Panel]] = {"Economy": ECONOMY}
VARIABLES = (
    choice("namespace", "label_values(holdfast_job_phase, namespace)"),
    choice("job", 'label_values(holdfast_job_phase{namespace=~"$namespace"}, job)'),
)


def render() -> str:
    """The dashboard as Grafana imports it; the same for the same code."""
    about = "Training jobs: what they cost, and what interruptions cost them."
    return json.dumps(dashboard("holdfast", "Holdfast", about, VARIABLES, ROWS), indent=2) + "\n"
