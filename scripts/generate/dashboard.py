"""The Grafana dashboard of these metrics. `make crds` writes it into the chart."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.generate.grafana import Panel, Query, choice, dashboard, thresholds

JOBS = 'job_namespace=~"$namespace", job_name=~"$job"'
HOUR = 3600
GREEN, ORANGE, RED = "green", "orange", "red"


def each(metric: str, *labels: str, where: str = JOBS) -> str:
    """The series of each job, once: during a change of the leader, two operators may report it."""
    return f"max by ({', '.join(('job_namespace', 'job_name', *labels))}) ({metric}{{{where}}})"


def total(metric: str) -> str:
    """The sum over all selected jobs."""
    return f"sum({each(metric)})"


def figure(title: str, about: str, expr: str, width: int = 4, /, **defaults: Any) -> Panel:
    """A panel with one large number."""
    plain = {"color": {"mode": "thresholds"}, "thresholds": thresholds((None, "text")), **defaults}
    options = {"graphMode": "none", "colorMode": "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return Panel(title, about, "stat", (Query(expr),), width=width, height=4, defaults=plain, options=options)


STACKED = {"stacking": {"mode": "normal"}, "fillOpacity": 40, "lineWidth": 1}
BARS = {"drawStyle": "bars", "stacking": {"mode": "normal"}, "fillOpacity": 80, "lineWidth": 0}
STEPS = {"lineInterpolation": "stepAfter"}
MONEY = {"unit": "none", "decimals": 2}
TABLE = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]}}
DONE = 'holdfast_job_phase{phase=~"Completed|Failed"}'
AT_RISK = each("holdfast_job_condition", where=f'condition=~"DeadlineAtRisk|BudgetAtRisk", {JOBS}')
UNSAVED = each("holdfast_job_condition", where=f'condition="CheckpointFailing", {JOBS}')
GOODPUT = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1}
UP_AND_OUT = [
    {
        "type": "value",
        "options": {"0": {"text": "out", "color": RED, "index": 0}, "1": {"text": "up", "color": GREEN, "index": 1}},
    }
]

JOB = "{{job_namespace}}/{{job_name}}"
TRAINS = each("holdfast_job_phase", where=f'phase=~"Running|Migrating", {JOBS}')
TIME_LEFT = f"clamp_min({each('holdfast_job_eta_timestamp_seconds')} - time(), 0) and ({TRAINS})"
# The operator computes the ETA from the pace of the attempt that trains: repeated steps do not distort it.
PACE = f"({each('holdfast_job_goal_steps')} - {each('holdfast_job_step')}) / ({TIME_LEFT} > 0)"  # steps a second


def in_phase(pattern: str) -> str:
    """The jobs that are in one of these phases."""
    return each("holdfast_job_phase", where=f'phase=~"{pattern}", {JOBS}')


def jobs(pattern: str) -> str:
    """The number of jobs in one of these phases."""
    return f"count({in_phase(pattern)}) or vector(0)"


TRAINING = (
    figure("Training", "Jobs that train now.", jobs("Running|Migrating"), 3, decimals=0),
    figure("Starting", "Jobs that wait for a node, start or recover.",
           jobs("Acquiring|Starting|Recovering"), 3, decimals=0),
    figure("Time left", "Of the job with the most time left, at its present pace.", f"max({TIME_LEFT})",
           unit="s"),
    figure("Losses", "Attempts that ended by a preemption, an eviction or a lost node.",
           total("holdfast_job_interruptions_total"), 3, decimals=0),
    figure("Failures", "Attempts that ended by an error of the program.",
           total("holdfast_job_failures_total"), 3, decimals=0,
           thresholds=thresholds((None, "text"), (1, ORANGE))),
    figure(
        "Oldest checkpoint", "Age of the newest checkpoint; the highest of all jobs that train.",
        f"max((time() - {each('holdfast_job_checkpoint_timestamp_seconds')}) and on (job_namespace, job_name) "
        f"({in_phase('Running|Migrating')}))",
        unit="s",
    ),
    figure(
        "Saves fail", "Jobs that train, and cannot save checkpoints.",
        f"count(({UNSAVED} == 1) unless on (job_namespace, job_name) ({DONE})) or vector(0)",
        thresholds=thresholds((None, GREEN), (1, RED)), decimals=0,
    ),
    Panel(
        "Phase", "The phase of each job.", "state-timeline",
        (Query(each("holdfast_job_phase", "phase"), f"{JOB}: {{{{phase}}}}"),),
        defaults={"color": {"mode": "palette-classic"}}, options={"showValue": "never", "mergeValues": True},
    ),
    Panel(
        "Progress", "Share of the steps that are done.", "timeseries",
        (Query(each("holdfast_job_progress_ratio"), JOB),),
        defaults={"unit": "percentunit", "min": 0, "max": 1}, options=TABLE,
    ),
    Panel(
        "Training loss",
        "Training loss that the trainers report.", "timeseries", (Query(each("holdfast_job_training_loss"), JOB),),
        options=TABLE,
    ),
    Panel(
        "Steps a second", "The pace from which the operator computes the time left.", "timeseries",
        (Query(PACE, JOB),), defaults={"decimals": 2}, options=TABLE,
    ),
    Panel(
        "Time left by job",
        "Time for the remaining steps at the present pace, while the job trains.", "timeseries",
        (Query(TIME_LEFT, JOB),), defaults={"unit": "s"}, options=TABLE,
    ),
    Panel(
        "Losses by job", "Attempts that ended by a preemption, an eviction or a lost node.", "timeseries",
        (Query(each("holdfast_job_interruptions_total"), JOB),), defaults={"decimals": 0}, custom=STEPS, options=TABLE,
    ),
)  # fmt: skip

ECONOMY = (
    figure("Spent", "Money spent on nodes so far by all selected jobs.", total("holdfast_job_cost"), **MONEY),
    figure(
        "Saved", "Money saved compared with the same steps on dedicated nodes only; negative if more was spent.",
        total("holdfast_job_cost_saved"), thresholds=thresholds((None, RED), (0, GREEN)), **MONEY,
    ),
    figure(
        "Expected total", "Expected cost of the whole jobs; for a job without a forecast, the money spent so far.",
        f"sum({each('holdfast_job_cost_expected')} or {each('holdfast_job_cost')})", **MONEY,
    ),
    figure(
        "Goodput", "Time in steps that were not lost, divided by all time since the first step; mean over jobs.",
        f"avg({each('holdfast_job_goodput_ratio')})",
        thresholds=thresholds((None, RED), (0.8, ORANGE), (0.95, GREEN)), **GOODPUT,
    ),
    figure("Steps lost", "Steps that were trained again after a loss.",
           total("holdfast_job_lost_steps_total"), decimals=0),
    figure(
        "Jobs at risk", "Jobs that may miss their deadline or exceed their budget.",
        f"count(({AT_RISK} == 1) unless on (job_namespace, job_name) ({DONE})) or vector(0)",
        thresholds=thresholds((None, GREEN), (1, ORANGE)), decimals=0,
    ),
    Panel(
        "Spend by tier", "Money spent on nodes so far by all selected jobs, by tier.", "timeseries",
        (Query(f"sum by (tier) ({each('holdfast_job_tier_cost', 'tier')})", "{{tier}}"),),
        defaults=MONEY, custom=STACKED, options=TABLE,
    ),
    Panel(
        "Expected total and budget", "Cost of each job so far, its expected total cost, and its budget.",
        "timeseries",
        (
            Query(each("holdfast_job_cost"), "{{job_namespace}}/{{job_name}} spent"),
            Query(each("holdfast_job_cost_expected"), "{{job_namespace}}/{{job_name}} expected"),
            Query(each("holdfast_job_cost_budget"), "{{job_namespace}}/{{job_name}} budget"),
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
        "Slack",
        "Time that may be lost until only the most dependable tier meets the deadline. Below zero: the expected "
        "delay behind the deadline.", "timeseries",
        (
            Query(
                f"{each('holdfast_job_slack_seconds')} - {each('holdfast_job_late_seconds')}", JOB
            ),
        ),
        defaults={"unit": "s", "thresholds": thresholds((None, RED), (0, ORANGE), (HOUR, GREEN))},
        custom={"thresholdsStyle": {"mode": "area"}}, options=TABLE,
    ),
    Panel(
        "Moves by reason", "Attempts that left their node before training was complete, in the whole cluster, by the "
        "kind of their tier.", "timeseries",
        (
            Query(
                "sum by (tier_kind, reason) (increase(holdfast_moves_total[$__rate_interval])) > 0",
                "{{tier_kind}}: {{reason}}",
            ),
        ),
        defaults={"decimals": 1}, custom=BARS, options=TABLE, interval="10m",
    ),
    Panel(
        "Tiers of capacity profiles",
        "Whether a tier gave a node when it was last observed. A gap: it was not observed.",
        "state-timeline",
        (Query("max by (profile, tier) (holdfast_profile_tier_up)", "{{profile}}/{{tier}}"),),
        defaults={"mappings": UP_AND_OUT, "color": {"mode": "thresholds"},
               "thresholds": thresholds((None, RED), (1, GREEN))},
        options={"showValue": "auto", "mergeValues": True},
    ),
    Panel(
        "Recovery by phase, median",
        "From the last step of an attempt until lost steps are trained again, in the whole "
        "cluster, over the last six hours.", "timeseries",
        (
            Query(
                "histogram_quantile(0.5, sum by (le, phase) (rate(holdfast_recovery_seconds_bucket[6h])))", "{{phase}}"
            ),
        ),
        defaults={"unit": "s"}, custom=STACKED, options=TABLE,
    ),
    Panel(
        "Recovery by phase, 95th percentile", "Over the time range of the dashboard, in the whole cluster.", "bargauge",
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
        "Steps lost by job", "Steps that were trained again after a loss.", "timeseries",
        (Query(each("holdfast_job_lost_steps_total"), JOB),),
        defaults={"decimals": 0}, custom=STEPS, options=TABLE,
    ),
    Panel(
        "Goodput by job", "Time in steps that were not lost, divided by all time since the first step.", "timeseries",
        (Query(each("holdfast_job_goodput_ratio"), JOB),),
        defaults=GOODPUT, options=TABLE,
    ),
)  # fmt: skip

ROWS: Mapping[str, Sequence[Panel]] = {"Training": TRAINING, "Economy": ECONOMY}
VARIABLES = (
    choice("namespace", "label_values(holdfast_job_phase, job_namespace)"),
    choice("job", 'label_values(holdfast_job_phase{job_namespace=~"$namespace"}, job_name)'),
)


def render() -> str:
    """The dashboard in the JSON form that Grafana imports."""
    about = "Training jobs: their progress, their cost, and the cost of interruptions."
    return json.dumps(dashboard("holdfast", "Holdfast", about, VARIABLES, ROWS), indent=2) + "\n"
