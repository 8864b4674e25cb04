"""The dashboard of one job, or of several in one picture: a base model beside a scaled one."""

from dataclasses import replace

from scripts.generate.dashboards.panels import (
    BLUE,
    GOODPUT_COLOURS,
    GREEN,
    GREY,
    HOUR,
    MONEY,
    ORANGE,
    RED,
    STACKED,
    STEPS,
    Column,
    curves,
    figure,
    job_table,
    states,
    word,
)
from scripts.generate.dashboards.panels import SHARE as OF_SHARE
from scripts.generate.dashboards.queries import (
    CHOSEN,
    JOB,
    OF_JOB,
    ON_JOB,
    OVER,
    checkpoint_age,
    each,
    gpu,
    pace,
    time_left,
    total,
)
from scripts.generate.grafana import WIDTH, Annotation, Dashboard, Panel, Query, choice, thresholds, values

from holdfast_protocol.figures import BYTES, ROWS, SHARE

PHASES = (
    ("Suspended", GREY), ("Acquiring", ORANGE), ("Starting", "yellow"), ("Running", GREEN), ("Migrating", BLUE),
    ("Recovering", "purple"), ("Completed", "dark-green"), ("Failed", RED),
)  # fmt: skip
KINDS = (("Spot", GREEN), ("Dedicated", ORANGE), ("CPU", GREY))
PLACE = {
    "job_namespace": "Namespace", "job_name": "Job", "attempt": "Attempt", "tier": "Tier", "tier_kind": "Kind",
    "node_name": "Node", "accelerator": "Accelerator", "policy": "Policy",
}  # fmt: skip
MILLISECONDS = 1000


def chosen(metric: str, *labels: str) -> str:
    """One series for each chosen job."""
    return each(metric, *labels, where=CHOSEN)


def numbered(metric: str, label: str, names: tuple[tuple[str, str], ...]) -> str:
    """One series for each job: the number of the name that a label has, from 1."""
    parts = (f'{number} * {metric}{{{label}="{name}", {CHOSEN}}}' for number, (name, _) in enumerate(names, 1))
    return f"max {OF_JOB} ({' or '.join(parts)})"


def named(names: tuple[tuple[str, str], ...]) -> list[dict[str, object]]:
    """The names of these numbers, with their colours."""
    return values(*((number, name, colour) for number, (name, colour) in enumerate(names, 1)))


def one(metric: str, legend: str = JOB) -> Query:
    """A curve for each chosen job."""
    return Query(chosen(metric), legend)


AXIS = {SHARE: OF_SHARE, BYTES: {"min": 0}}  # of a figure, by its kind
# By the name of a figure: title, description, unit, and what the panel says without a value.
FIGURES = {
    "loss": ("Training loss over time", "Loss that the program reports. A gap: it is not a finite number.", "none",
             "no loss was reported"),
    "samples_per_second": ("Samples a second", "Samples that the program reports.", "none", "no samples were reported"),
    "data_wait": ("Waiting for data", "Share of a step's time that the program waits for data. High: more loader "
                  "workers, or more cpu.", "percentunit", "not told by the program"),
    "peak_memory": ("Peak memory of an accelerator", "Most memory that the tensors of the program had at one time, on "
                    "the accelerator that had most.", "bytes", "no accelerator"),
    "save_cost": ("Training time that a save costs", "Seconds for which training waits because of a save; the median "
                  "of the newest ones.", "s", "no save was measured"),
}  # fmt: skip


def of_figures() -> list[Panel]:
    """A curve for each figure of the program that has a panel, two in a line; the last one fills its line."""
    rows = {row.name: row for row in ROWS}
    shown = [(rows[name], panel) for name, panel in FIGURES.items()]
    made = [curves(*panel, one(f"holdfast_job_{row.metric}"), **AXIS.get(row.kind, {})) for row, panel in shown]
    return made if len(made) % 2 == 0 else [*made[:-1], replace(made[-1], width=WIDTH)]


AGE = checkpoint_age(where=CHOSEN)
SLACK = f"{chosen('holdfast_job_slack_seconds')} - {chosen('holdfast_job_late_seconds')}"
UNSAVED = f"{chosen('holdfast_job_step')} - {chosen('holdfast_job_checkpoint_step')}"
DASHED = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}}
OF_BUDGET = {
    "matcher": {"id": "byRegexp", "options": ".* budget$"},
    "properties": [DASHED, {"id": "color", "value": {"mode": "fixed", "fixedColor": RED}}],
}
OF_FORECAST = {"matcher": {"id": "byRegexp", "options": ".* expected$"}, "properties": [DASHED]}

OVERVIEW = (
    word("Phase", "Phase of each job.", chosen("holdfast_job_phase", "phase"), "{{phase}}", "no such job"),
    word("Tier", "Tier of the newest attempt.", chosen("holdfast_job_info", "tier"), "{{tier}}", "no such job"),
    figure("Progress", "Share of the steps that are done.", chosen("holdfast_job_progress_ratio"), "percentunit",
           "no step was reported", legend=JOB, **OF_SHARE),
    figure("Time left", "Time for the remaining steps at the present pace.", time_left(where=CHOSEN), "s",
           "not training", legend=JOB),
    figure("Training loss", "Newest loss that the program reported.", chosen("holdfast_job_training_loss"), "none",
           "no loss was reported", legend=JOB, decimals=4),
    figure("Checkpoint age", "Age of the newest checkpoint while the job trains: what an interruption costs.", AGE, "s",
           "not training, or none yet", legend=JOB),
    figure("Slack", "Time that may be lost until only the most dependable tier meets the deadline. Below zero: the "
           "expected delay.", SLACK, "s", "no deadline", legend=JOB,
           thresholds=thresholds((None, RED), (0, ORANGE), (HOUR, GREEN))),
    figure("Spent", "Money spent on nodes so far.", chosen("holdfast_job_cost"), "none", "no such job", legend=JOB,
           **MONEY),
    states("Phase over time", "The phase of each job.", "no such job",
           Query(numbered("holdfast_job_phase", "phase", PHASES), JOB), named(PHASES)),
    states("Kind of tier over time", "Where the newest attempt of each job runs or will run.", "no attempt",
           Query(numbered("holdfast_job_info", "tier_kind", KINDS), JOB), named(KINDS)),
    job_table("Attempts", "Attempts that had a node in the time that is shown.", "no attempt had a node in this time",
              Column("Seen", "max by (job_namespace, job_name, attempt, tier, tier_kind, node_name, accelerator, "
                     f'policy) (last_over_time(holdfast_job_info{{node_name!="", {CHOSEN}}}[$__range]))'),
              labels=PLACE, shows_values=False),
)  # fmt: skip

PROGRESS = (
    curves("Progress over time", "Share of the steps that are done.", "percentunit", "no step was reported",
           one("holdfast_job_progress_ratio"), **OF_SHARE),
    curves("Steps a second", "Pace of the attempt that trains: the operator computes the time left from it.", "none",
           "not training", Query(pace(where=CHOSEN), JOB), decimals=2),
    *of_figures(),
    curves("Metrics of the program", "Newest values of what the program gives to `run.report(metrics=...)`, such as an "
           "accuracy. A gap: it is not a finite number.", "none", "no metric was reported",
           Query(chosen("holdfast_job_training_metric", "name"), JOB + " {{name}}"), width=24),
    curves("Time left over time", "Time for the remaining steps at the present pace, while the job trains.", "s",
           "not training", Query(time_left(where=CHOSEN), JOB)),
    curves("Steps that are not saved", "Steps since the newest checkpoint: what an interruption without notice costs.",
           "none",
           "no checkpoint with a step yet", Query(f"clamp_min({UNSAVED}, 0)", JOB), custom=STEPS, decimals=0),
    curves("Checkpoint age over time", "Age of the newest checkpoint while the job trains, and the time after which "
           "the next one is due (spec.checkpoint.every).", "s", "not training, or no checkpoint yet",
           Query(AGE, JOB), one("holdfast_job_checkpoint_interval_seconds", f"{JOB} due")),
    curves("Checkpoint size", "Size of the newest checkpoint.", "bytes", "no checkpoint yet",
           one("holdfast_job_checkpoint_bytes"), custom=STEPS),
    states("Conditions", "Conditions that say more than the phase.", "no condition is known",
           Query(chosen("holdfast_job_condition", "condition"), JOB + " {{condition}}"),
           values((0, "no", GREY), (1, "yes", ORANGE)), width=24),
)  # fmt: skip

MONEY_ROW = (
    figure("Per hour", "Money per hour for the nodes that the jobs have now.",
           total("holdfast_job_cost_per_hour", where=CHOSEN), "none", "no such job", width=4, **MONEY),
    figure("Expected", "Expected cost of each job at its end.", chosen("holdfast_job_cost_expected"), "none",
           "no forecast yet", width=4, legend=JOB, **MONEY),
    figure("Budget", "Money that each job may spend.", chosen("holdfast_job_cost_budget"), "none", "no budget",
           width=4, legend=JOB, **MONEY),
    figure("Saved", "Money saved compared with the same steps on dedicated nodes only; negative if more was spent.",
           chosen("holdfast_job_cost_saved"), "none", "no dedicated tier with a price", width=4, legend=JOB,
           thresholds=thresholds((None, RED), (0, GREEN)), **MONEY),
    figure("Deadline", "When the training must be complete.",
           f"{chosen('holdfast_job_deadline_timestamp_seconds')} * {MILLISECONDS}", "dateTimeAsIso", "no deadline",
           width=4, legend=JOB),
    figure("End", "When the training will be complete at its present pace.",
           f"{chosen('holdfast_job_eta_timestamp_seconds')} * {MILLISECONDS}", "dateTimeAsIso", "not known",
           width=4, legend=JOB),
    curves("Cost", "Money spent so far, expected total cost, and budget.", "none", "no such job",
           one("holdfast_job_cost", f"{JOB} spent"), one("holdfast_job_cost_expected", f"{JOB} expected"),
           one("holdfast_job_cost_budget", f"{JOB} budget"), overrides=(OF_BUDGET, OF_FORECAST), **MONEY),
    curves("Spend by tier", "Money spent on nodes so far by the chosen jobs together, by tier.", "none", "no such job",
           Query(f"sum by (tier) ({chosen('holdfast_job_tier_cost', 'tier')})", "{{tier}}"), custom=STACKED, **MONEY),
    curves("Cost per hour", "Money per hour for the nodes that each job has.", "none", "no such job",
           one("holdfast_job_cost_per_hour"), custom=STEPS, **MONEY),
    curves("Slack over time", "Time that may be lost until only the most dependable tier meets the deadline. Below "
           "zero: the expected delay behind the deadline.", "s", "no deadline", Query(SLACK, JOB),
           custom={"thresholdsStyle": {"mode": "area"}},
           thresholds=thresholds((None, RED), (0, ORANGE), (HOUR, GREEN))),
)  # fmt: skip

INTERRUPTIONS = (
    figure("Attempt", "Number of the newest attempt.", chosen("holdfast_job_attempt"), "none", "no such job", width=4,
           legend=JOB, decimals=0),
    figure("Interruptions", "Attempts that ended by a preemption, an eviction or a lost node.",
           chosen("holdfast_job_interruptions_total"), "none", "no such job", width=4, legend=JOB, decimals=0),
    figure("Failures", "Attempts that ended by an error of the program.", chosen("holdfast_job_failures_total"), "none",
           "no such job", width=4, legend=JOB, decimals=0, thresholds=thresholds((None, GREY), (1, ORANGE))),
    figure("Steps lost", "Steps that were trained again after an interruption.",
           chosen("holdfast_job_lost_steps_total"), "none", "not known", width=4, legend=JOB, decimals=0),
    figure("Time lost", "Time from the last step of each attempt to the first step of the next one, summed.",
           chosen("holdfast_job_lost_seconds_total"), "s", "no such job", width=4, legend=JOB),
    figure("Goodput", "Time in steps that were not lost, divided by all time since the first step.",
           chosen("holdfast_job_goodput_ratio"), "percentunit", "no two steps yet", width=4, legend=JOB,
           thresholds=GOODPUT_COLOURS, **OF_SHARE),
    curves("Interruptions and failures", "Attempts that ended early: taken nodes, and errors of the program.", "none",
           "no such job", one("holdfast_job_interruptions_total", f"{JOB} interruptions"),
           one("holdfast_job_failures_total", f"{JOB} failures"), custom=STEPS, decimals=0),
    curves("Steps lost over time", "Steps that were trained again after an interruption.", "none", "not known",
           one("holdfast_job_lost_steps_total"), custom=STEPS, decimals=0),
    curves("Time lost over time", "Time from the last step of each attempt to the first step of the next one.", "s",
           "no such job", one("holdfast_job_lost_seconds_total"), custom=STEPS),
    curves("Goodput over time", "Time in steps that were not lost, divided by all time since the first step.",
           "percentunit", "no two steps yet", one("holdfast_job_goodput_ratio"), **OF_SHARE),
)  # fmt: skip

NO_GPU = "no series of dcgm-exporter for the pods of this job"


def of_gpus(metric: str) -> Query:
    """The mean over the GPUs of each chosen job."""
    return Query(f"avg {OF_JOB} ({gpu(metric, where=CHOSEN)})", JOB)


GPU = (
    curves("GPU busy", "Share of the time in which a GPU does anything at all; mean over the job's GPUs.", "percent",
           NO_GPU, of_gpus("DCGM_FI_DEV_GPU_UTIL"), min=0, max=100),
    curves("Tensor cores", "Share of the time in which the tensor cores work; mean over the job's GPUs.", "percentunit",
           NO_GPU, of_gpus("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), **OF_SHARE),
    curves("GPU memory", "Memory that is used; mean over the job's GPUs.", "decmbytes", NO_GPU,
           of_gpus("DCGM_FI_DEV_FB_USED"), min=0),
    curves("Power", "Power that a GPU draws; mean over the job's GPUs.", "watt", NO_GPU,
           of_gpus("DCGM_FI_DEV_POWER_USAGE"), min=0),
)  # fmt: skip

NEW_ATTEMPT = (
    f"{chosen('holdfast_job_info', 'attempt', 'tier', 'node_name')} unless on (job_namespace, job_name, attempt) "
    f"holdfast_job_info{{{CHOSEN}}} offset 1m"
)  # fmt: skip
ENDED = f'phase=~"{OVER}", {CHOSEN}'
NEW_END = f"{each('holdfast_job_phase', 'phase', where=ENDED)} unless {ON_JOB} holdfast_job_phase{{{ENDED}}} offset 1m"
ALERT = f'max by (alertname, job_namespace, job_name) (ALERTS{{alertstate="firing", {CHOSEN}}})'

ONE_JOB = Dashboard(
    "holdfast-job",
    "Holdfast: one job",
    "A training: how far, how well, where, at what cost. Choose several jobs to compare them in one picture. Vertical "
    "lines are the beginnings of attempts and the end.",
    (
        choice("namespace", "Namespace", "label_values(holdfast_job_phase, job_namespace)", with_all=False),
        choice("job", "Job", 'label_values(holdfast_job_phase{job_namespace=~"$namespace"}, job_name)',
               with_all=False),
    ),
    {
        "Overview": OVERVIEW,
        "Progress": PROGRESS,
        "Money": MONEY_ROW,
        "Interruptions": INTERRUPTIONS,
        "GPU": GPU,
    },
    (
        Annotation("Attempts", NEW_ATTEMPT, "{{job_name}}: attempt {{attempt}}", "tier {{tier}} {{node_name}}", BLUE),
        Annotation("Ends", NEW_END, "{{job_name}}: {{phase}}", "", GREEN),
        Annotation("Alerts", ALERT, "{{job_name}}: {{alertname}}", "", RED),
    ),
)  # fmt: skip
