"""The dashboard of all jobs together. It has no curve for each job: the tables show some, and lead to the next one."""

from scripts.generate.dashboards.panels import (
    BARS,
    GOODPUT_COLOURS,
    GREEN,
    JOB_COLUMNS,
    MONEY,
    NONE_IS_GOOD,
    ORANGE,
    RED,
    SHARE,
    STACKED,
    Column,
    curves,
    figure,
    job_table,
    states,
)
from scripts.generate.dashboards.queries import (
    IN_FLEET,
    OF_JOB,
    ON_JOB,
    OVER,
    TRAINING,
    WAITING,
    among,
    checkpoint_age,
    condition,
    each,
    gpu,
    in_phase,
    or_zero,
    quantile,
    time_left,
    total,
    waiting,
)
from scripts.generate.grafana import Dashboard, Panel, Query, choice, thresholds, values

ROWS_OF_A_TABLE = 15
TROUBLE = (
    "CheckpointFailing|StorageUnreachable|MemoryShort|ProgressUnreachable|StartBlocked|Misconfigured|SlowRank"
    "|DeadlineAtRisk|BudgetAtRisk|FeatureOff|NeverFits"
)


def top(expr: str) -> str:
    """The highest few."""
    return f"topk({ROWS_OF_A_TABLE}, {expr})"


def jobs(pattern: str) -> str:
    """The number of jobs in these phases, also of those that have no series of their own."""
    found = f"max by (job_namespace, phase) (holdfast_jobs{{{among('phase', pattern)}, {IN_FLEET}}})"
    return or_zero(f"sum({found})")


def in_range(counter: str, selector: str = "") -> str:
    """By how much a counter of the whole cluster grew in the time that is shown."""
    return f"sum(increase({counter}{selector}[$__range]))"


def having(pattern: str) -> str:
    """The number of jobs with one of these conditions."""
    return or_zero(f"count(count {OF_JOB} ({condition(pattern, where=IN_FLEET)}))")


LEFT = time_left(where=IN_FLEET)
UNSAVED = f"({in_phase(TRAINING, where=IN_FLEET)}) unless {ON_JOB} holdfast_job_checkpoint_timestamp_seconds"
LATE = each("holdfast_job_late_seconds", where=IN_FLEET)

OVERVIEW = (
    figure("Training", "Jobs that train now.", jobs(TRAINING), "none", "no operator leads", decimals=0),
    figure("Waiting", "Jobs that wait for a node, start or recover.", jobs(WAITING), "none", "no operator leads",
           decimals=0),
    figure("Suspended", "Jobs that a user or their budget has suspended.", jobs("Suspended"), "none",
           "no operator leads", decimals=0),
    figure("Completed", "Jobs of the whole cluster that completed in the time that is shown.",
           in_range("holdfast_jobs_ended_total", '{phase="Completed"}'), "none", "no operator ran", decimals=0),
    figure("Failed", "Jobs of the whole cluster that failed in the time that is shown.",
           in_range("holdfast_jobs_ended_total", '{phase="Failed"}'), "none", "no operator ran", decimals=0,
           thresholds=thresholds((None, GREEN), (1, ORANGE))),
    figure("At risk", "Jobs that may miss their deadline or exceed their budget.",
           having("DeadlineAtRisk|BudgetAtRisk"), "none", "no operator leads", decimals=0,
           thresholds=thresholds((None, GREEN), (1, ORANGE))),
    figure("Saves fail", "Jobs that cannot save their checkpoints, or whose storage does not answer.",
           having("CheckpointFailing|StorageUnreachable"), "none", "no operator leads", decimals=0,
           thresholds=NONE_IS_GOOD),
    figure("Goodput", "Time in steps that were not lost, divided by all time since the first step; mean over jobs.",
           f"avg({each('holdfast_job_goodput_ratio', where=IN_FLEET)})", "percentunit", "no job has trained two steps",
           thresholds=GOODPUT_COLOURS, **SHARE),
    curves("Jobs by phase", "Number of jobs in each phase.", "none", "no job",
           Query(f"sum by (phase) (max by (job_namespace, phase) (holdfast_jobs{{{IN_FLEET}}}))", "{{phase}}"),
           custom=STACKED, decimals=0),
    states("Tiers of capacity profiles",
           "Whether a tier gave a node when it was last observed. A gap: it was not observed.",
           "no tier of a CapacityProfile was tried",
           Query("max by (profile, tier) (holdfast_profile_tier_up)", "{{profile}}/{{tier}}"),
           values((0, "out", RED), (1, "up", GREEN))),
    job_table("Firing alerts", "Alerts of Holdfast that fire now. docs/runbooks has a page for each.", "no alert fires",
              Column("Firing", "count by (alertname, severity, job_namespace, job_name) "
                     '(ALERTS{alertname=~"Holdfast.+|TrainingJob.+", alertstate="firing", '
                     'job_namespace=~"|$namespace"})'),
              labels={"alertname": "Alert", "severity": "Severity", "job_namespace": "Namespace", "job_name": "Job"},
              shows_values=False, width=12),
    job_table("Jobs in trouble", "Jobs with a condition that asks for a look.", "no job is in trouble",
              Column("True", f"topk(50, {condition(TROUBLE, where=IN_FLEET)})"),
              labels={"job_namespace": "Namespace", "job_name": "Job", "condition": "Condition"},
              shows_values=False, width=12),
    job_table("Jobs that wait",
              "Jobs that do not train, and how long they have been in their phase. `holdfast why` says why.",
              "no job waits", Column("For", top(waiting(where=IN_FLEET)), "s"),
              labels=JOB_COLUMNS | {"phase": "Phase"}),
)  # fmt: skip

PROGRESS = (
    figure("Longest time left", "Of the job with the most time left, at its present pace.", f"max({LEFT})", "s",
           "no job trains", width=4),
    figure("Oldest checkpoint", "Age of the newest checkpoint; the highest of all jobs that train.",
           f"max({checkpoint_age(where=IN_FLEET)})", "s", "no job that trains has one", width=4),
    figure("Without a checkpoint", "Jobs that train and have not saved yet: an interruption costs them everything.",
           or_zero(f"count({UNSAVED})"), "none", "no operator leads", width=4, decimals=0,
           thresholds=thresholds((None, GREEN), (1, ORANGE))),
    figure("Wait for nodes", "95 % of the attempts of the whole cluster got their nodes within this time.",
           "histogram_quantile(0.95, sum by (le) "
           '(increase(holdfast_acquire_seconds_bucket{result="Acquired"}[$__range])))', "s",
           "no attempt got nodes", width=4),
    figure("Duration of a save", "95 % of the saves of the whole cluster took at most this time.",
           "histogram_quantile(0.95, sum by (le) (increase(holdfast_checkpoint_save_seconds_bucket[$__range])))", "s",
           "nothing was saved", width=4),
    figure("Without own series", "Jobs that are only in the sums, because there are more than --metrics-jobs.",
           "max(holdfast_jobs_omitted)", "none", "no operator leads", width=4, decimals=0,
           thresholds=thresholds((None, GREEN), (1, ORANGE))),
    job_table("Jobs with the most time left", "Jobs that train.", "no job trains",
              Column("Time left", top(LEFT), "s"),
              Column("Progress", each("holdfast_job_progress_ratio", where=IN_FLEET), "percentunit", 1),
              Column("Step", each("holdfast_job_step", where=IN_FLEET), "none", 0),
              Column("Training loss", each("holdfast_job_training_loss", where=IN_FLEET), "none", 4),
              Column("Samples a second", each("holdfast_job_samples_per_second", where=IN_FLEET), "none", 1),
              Column("Checkpoint age", checkpoint_age(where=IN_FLEET), "s")),
    curves("Time until nodes are there", "From the decision for an attempt until it had its nodes, in the whole "
           "cluster, by the kind of tier.", "s", "no attempt got nodes in this time",
           Query(quantile(0.5, "holdfast_acquire_seconds", "tier_kind", where='result="Acquired"'),
                 "{{tier_kind}} p50"),
           Query(quantile(0.95, "holdfast_acquire_seconds", "tier_kind", where='result="Acquired"'),
                 "{{tier_kind}} p95"), interval="10m"),
    curves("Attempts without nodes", "Attempts that gave up before they had their nodes, in the whole cluster.", "none",
           "no attempt in this time",
           Query("sum by (tier_kind) "
                 '(increase(holdfast_acquire_seconds_count{result="GaveUp"}[$__rate_interval]))', "{{tier_kind}}"),
           custom=BARS, interval="10m", decimals=0),
    curves("Duration of saves", "From the beginning of a save to its commit, in the whole cluster.", "s",
           "nothing was saved in this time",
           Query(quantile(0.5, "holdfast_checkpoint_save_seconds"), "p50"),
           Query(quantile(0.95, "holdfast_checkpoint_save_seconds"), "p95"), interval="10m"),
    curves("Checkpoint data", "Bytes of committed checkpoints, in the whole cluster.", "Bps",
           "nothing was saved in this time",
           Query("sum(rate(holdfast_checkpoint_save_bytes_sum[$__rate_interval]))", "committed")),
)  # fmt: skip

MONEY_ROW = (
    figure("Spend per hour", "Money per hour for the nodes that all jobs of the cluster have now.",
           "sum(max by (tier_kind) (holdfast_spend_per_hour))", "none", "no operator leads", width=4, **MONEY),
    figure("Spent in this time", "Money that all jobs of the cluster spent on nodes in the time that is shown.",
           in_range("holdfast_cost_total"), "none", "no operator ran", width=4, **MONEY),
    figure("Spent by these jobs", "Money spent on nodes so far by all jobs that still exist.",
           total("holdfast_job_cost", where=IN_FLEET), "none", "no job", width=4, **MONEY),
    figure("Expected total", "Expected cost of the whole jobs; for a job without a forecast, the money spent so far.",
           f"sum({each('holdfast_job_cost_expected', where=IN_FLEET)} or {each('holdfast_job_cost', where=IN_FLEET)})",
           "none", "no job", width=4, **MONEY),
    figure("Saved", "Money saved compared with the same steps on dedicated nodes only; negative if more was spent.",
           total("holdfast_job_cost_saved", where=IN_FLEET), "none", "no dedicated tier with a price", width=4,
           thresholds=thresholds((None, RED), (0, GREEN)), **MONEY),
    figure("Late jobs", "Jobs that will miss their deadline, even if no further interruption comes.",
           f"count({LATE} > 0) or 0 * count({LATE})", "none", "no job has a deadline", width=4, decimals=0,
           thresholds=NONE_IS_GOOD),
    curves("Spend per hour by kind of tier", "Money per hour for the nodes that all jobs of the cluster have.", "none",
           "no job has a node with a price",
           Query("max by (tier_kind) (holdfast_spend_per_hour)", "{{tier_kind}}"), custom=STACKED, **MONEY),
    curves("Spent by kind of tier", "Money that all jobs of the cluster spent on nodes, in each hour.", "none",
           "no job has a node with a price",
           Query("sum by (tier_kind) (increase(holdfast_cost_total[$__rate_interval]))", "{{tier_kind}}"),
           custom=BARS, interval="1h", **MONEY),
    job_table("Most expensive jobs", "Cost so far, and what is known of the rest.", "no job",
              Column("Spent", top(each("holdfast_job_cost", where=IN_FLEET)), "none", 2),
              Column("Per hour", each("holdfast_job_cost_per_hour", where=IN_FLEET), "none", 2),
              Column("Expected", each("holdfast_job_cost_expected", where=IN_FLEET), "none", 2),
              Column("Budget", each("holdfast_job_cost_budget", where=IN_FLEET), "none", 2),
              Column("Saved", each("holdfast_job_cost_saved", where=IN_FLEET), "none", 2),
              Column("Slack", each("holdfast_job_slack_seconds", where=IN_FLEET), "s")),
)  # fmt: skip

RECOVERIES = in_range("holdfast_recovery_seconds_count", '{phase="restore"}')
INTERRUPTIONS = (
    figure("Moves", "Attempts of the whole cluster that left their node before training was complete or had failed.",
           in_range("holdfast_moves_total"), "none", "no operator ran", width=4, decimals=0),
    figure("Steps lost", "Steps of the whole cluster that had to be trained again, in the time that is shown.",
           in_range("holdfast_lost_steps_total"), "none", "no operator ran", width=4, decimals=0),
    figure("Mean recovery", "Time from the last step before an interruption until the lost steps are trained again.",
           f"{in_range('holdfast_recovery_seconds_sum')} / ({RECOVERIES} > 0)", "s",
           "no recovery in this time", width=4),
    figure("Interruptions", "Attempts that ended by a preemption, an eviction or a lost node, of jobs that are left.",
           total("holdfast_job_interruptions_total", where=IN_FLEET), "none", "no job", width=4, decimals=0),
    figure("Failures", "Attempts that ended by an error of the program, of jobs that are left.",
           total("holdfast_job_failures_total", where=IN_FLEET), "none", "no job", width=4, decimals=0,
           thresholds=thresholds((None, GREEN), (1, ORANGE))),
    figure("Fenced", "Old attempts of the whole cluster that a newer one shut out of its checkpoints.",
           in_range("holdfast_moves_total", '{reason="Fenced"}'), "none", "no operator ran", width=4, decimals=0),
    curves("Moves by reason", "Attempts of the whole cluster that left their node before training was complete, by the "
           "kind of their tier.", "none", "no move in this time",
           Query("sum by (tier_kind, reason) (increase(holdfast_moves_total[$__rate_interval])) > 0",
                 "{{tier_kind}}: {{reason}}"), custom=BARS, interval="10m", decimals=0),
    Panel("Recovery by phase", "Mean duration of each phase of a recovery in the time that is shown, in the whole "
          "cluster.", "bargauge",
          (Query("sum by (phase) (increase(holdfast_recovery_seconds_sum[$__range])) / "
                 "(sum by (phase) (increase(holdfast_recovery_seconds_count[$__range])) > 0)", "{{phase}}",
                 instant=True),),
          "s", "no recovery in this time", defaults={"min": 0, "color": {"mode": "palette-classic"}},
          options={"orientation": "horizontal", "displayMode": "gradient", "showUnfilled": True,
                   "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}),
    job_table("Most interrupted jobs", "What interruptions have cost them.", "no job was interrupted",
              Column("Interruptions", top(f"({each('holdfast_job_interruptions_total', where=IN_FLEET)} > 0)"),
                     "none", 0),
              Column("Failures", each("holdfast_job_failures_total", where=IN_FLEET), "none", 0),
              Column("Steps lost", each("holdfast_job_lost_steps_total", where=IN_FLEET), "none", 0),
              Column("Time lost", each("holdfast_job_lost_seconds_total", where=IN_FLEET), "s"),
              Column("Goodput", each("holdfast_job_goodput_ratio", where=IN_FLEET), "percentunit", 1)),
)  # fmt: skip

NO_GPU = "no series of dcgm-exporter for pods of jobs"
BUSY = gpu("DCGM_FI_DEV_GPU_UTIL", where=IN_FLEET)
TENSOR = gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", where=IN_FLEET)
POWER = gpu("DCGM_FI_DEV_POWER_USAGE", where=IN_FLEET)
GPU = (
    figure("GPUs", "GPUs that pods of jobs have.", f"count({BUSY})", "none", NO_GPU, width=6, decimals=0),
    figure("Busy", "Share of the time in which a GPU does anything at all; mean over GPUs.", f"avg({BUSY})",
           "percent", NO_GPU, width=6, decimals=0),
    figure("Tensor cores", "Share of the time in which the tensor cores work; mean over GPUs.", f"avg({TENSOR})",
           "percentunit", NO_GPU, width=6, decimals=0),
    figure("Power", "Power that these GPUs draw together.", f"sum({POWER})", "watt", NO_GPU, width=6),
    job_table("Jobs that use their GPUs least", "Means over the GPUs of each job.", NO_GPU,
              Column("Busy", f"bottomk({ROWS_OF_A_TABLE}, avg {OF_JOB} ({BUSY}))", "percent", 0),
              Column("Tensor cores", f"avg {OF_JOB} ({TENSOR})", "percentunit", 1),
              Column("Power", f"avg {OF_JOB} ({POWER})", "watt"),
              Column("GPUs", f"count {OF_JOB} ({BUSY})", "none", 0), rising=True),
)  # fmt: skip

FLEET = Dashboard(
    "holdfast-fleet",
    "Holdfast: all jobs",
    "Training jobs together: how many, how far, what they cost, what interrupts them. Completed and failed jobs are in "
    f"the sums of money until they are deleted. Phases that are final: {OVER.replace('|', ', ')}.",
    (choice("namespace", "Namespace", "label_values(holdfast_jobs, job_namespace)", with_all=True),),
    {
        "Overview": OVERVIEW,
        "Progress": PROGRESS,
        "Money": MONEY_ROW,
        "Interruptions": INTERRUPTIONS,
        "GPU": GPU,
    },
)  # fmt: skip
