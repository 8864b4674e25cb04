"""Queries that several dashboards share, in Prometheus' language.

Queries about jobs take the highest value of each job: during a change of the leader, two operators report it.
"""

ON_JOB = "on (job_namespace, job_name)"
OF_JOB = "by (job_namespace, job_name)"
JOB = "{{job_namespace}}/{{job_name}}"  # a legend

IN_FLEET = 'job_namespace=~"$namespace"'
CHOSEN = 'job_namespace=~"$namespace", job_name=~"$job"'

TRAINING, WAITING, OVER = "Running|Migrating", "Pending|Acquiring|Starting|Recovering", "Completed|Failed"


def among(label: str, names: str) -> str:
    """The selector of a label that has one of these names, which `|` separates."""
    return f'{label}{"=~" if "|" in names else "="}"{names}"'


def each(metric: str, *labels: str, where: str) -> str:
    """One series for each job that the selector `where` takes, and for each value of further labels."""
    return f"max by ({', '.join(('job_namespace', 'job_name', *labels))}) ({metric}{{{where}}})"


def total(metric: str, *, where: str) -> str:
    """The sum over all these jobs."""
    return f"sum({each(metric, where=where)})"


def in_phase(pattern: str, *, where: str) -> str:
    """The jobs that are in one of these phases."""
    return each("holdfast_job_phase", where=f"{among('phase', pattern)}, {where}")


def condition(pattern: str, *, where: str) -> str:
    """The jobs that have one of these conditions and are not over."""
    found = each("holdfast_job_condition", "condition", where=f"{among('condition', pattern)}, {where}")
    return f'({found} == 1) unless {ON_JOB} holdfast_job_phase{{phase=~"{OVER}"}}'


def or_zero(expr: str) -> str:
    """0 where the query has no series and an operator leads: without one, nobody knows how many there are."""
    return f"{expr} or 0 * max(holdfast_leading == 1)"


def time_left(*, where: str) -> str:
    """Seconds until the training of each job that trains is complete, at its present pace."""
    left = f"clamp_min({each('holdfast_job_eta_timestamp_seconds', where=where)} - time(), 0)"
    return f"{left} and ({in_phase(TRAINING, where=where)})"


def pace(*, where: str) -> str:
    """Steps a second of the attempt that trains: repeated steps do not distort it."""
    return f"1 / ({each('holdfast_job_step_seconds', where=where)} > 0)"


def waiting(*, where: str) -> str:
    """How long each job that waits has been in its phase."""
    since = each("holdfast_job_phase_since_timestamp_seconds", where=where)
    phase = each("holdfast_job_phase", "phase", where=f"{among('phase', WAITING)}, {where}")
    return f"(time() - {since}) * {ON_JOB} group_left (phase) {phase}"


def checkpoint_age(*, where: str) -> str:
    """Age of the newest checkpoint of each job that trains."""
    age = f"time() - {each('holdfast_job_checkpoint_timestamp_seconds', where=where)}"
    return f"({age}) and {ON_JOB} ({in_phase(TRAINING, where=where)})"


def quantile(share: float, histogram: str, *labels: str, where: str = "") -> str:
    """A quantile of what was observed lately, for each value of these labels."""
    selector = f"{{{where}}}" if where else ""
    groups = ", ".join(("le", *labels))
    return f"histogram_quantile({share:g}, sum by ({groups}) (rate({histogram}_bucket{selector}[$__rate_interval])))"


def gpu(metric: str, *, where: str) -> str:
    """A metric of NVIDIA's dcgm-exporter with the labels of the job whose pod uses the GPU.

    A pod is named JOB-ATTEMPT-RANK. The labels namespace and pod are those of the training's pod: honor_labels is set.
    """
    named = f'label_replace({metric}, "job_name", "$1", "pod", "(.+)-[0-9]+-[0-9]+")'
    placed = f'label_replace({named}, "job_namespace", "$1", "namespace", "(.+)")'
    return f"({placed} and {ON_JOB} holdfast_job_info{{{where}}})"
