"""The dashboard of the operator's own work."""

from scripts.generate.dashboards.panels import (
    BARS,
    GREEN,
    NONE_IS_GOOD,
    ORANGE,
    RED,
    STACKED,
    curves,
    figure,
    word,
)
from scripts.generate.dashboards.queries import quantile
from scripts.generate.grafana import Dashboard, Query, choice, thresholds

SEEN = 'instance=~"$instance"'
NO_OPERATOR = "no operator was scraped"
NO_LEADER = "no operator leads"


def highest(metric: str) -> str:
    """The highest value of all operators."""
    return f"max({metric}{{{SEEN}}})"


def rate(counter: str, *labels: str) -> Query:
    """Events a second, for each value of the labels."""
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    return Query(f"sum by ({', '.join(labels)}) (rate({counter}{{{SEEN}}}[$__rate_interval]))", legend)


def of_process(metric: str) -> str:
    """A metric of every Python process, of operators only."""
    return f"{metric}{{{SEEN}}} and on (instance, job) holdfast_build_info"


OVERVIEW = (
    figure("Leaders", "Operators that lead: 1, and for some seconds 0 when another one takes over.",
           f"sum(holdfast_leading{{{SEEN}}})", "none", NO_OPERATOR, decimals=0,
           thresholds=thresholds((None, RED), (1, GREEN), (2, ORANGE))),
    figure("Operators", "Operators that are scraped.", f"count(holdfast_build_info{{{SEEN}}})", "none", NO_OPERATOR,
           decimals=0),
    word("Version", "Version of the operators.", f"max by (version) (holdfast_build_info{{{SEEN}}})", "{{version}}",
         NO_OPERATOR),
    figure("Lease", "Time since the leader renewed its Lease: by default every 5 s. After 12 s it stops leading.",
           highest("holdfast_lease_age_seconds"), "s", NO_LEADER,
           thresholds=thresholds((None, GREEN), (8, ORANGE), (12, RED))),
    figure("Oldest in the queue", "How long the oldest job has waited for a worker.",
           highest("holdfast_queue_oldest_seconds"), "s", NO_LEADER,
           thresholds=thresholds((None, GREEN), (10, ORANGE), (60, RED))),
    figure("Event loop", "99 % of the tasks go on with at most this delay.",
           f"histogram_quantile(0.99, sum by (le) (rate(holdfast_event_loop_lag_seconds_bucket{{{SEEN}}}"
           "[$__rate_interval])))", "s", NO_OPERATOR, thresholds=thresholds((None, GREEN), (0.1, ORANGE), (1, RED))),
    figure("Unreadable jobs", "TrainingJobs that this operator cannot read; nothing is decided for them.",
           highest("holdfast_malformed_jobs"), "none", NO_OPERATOR, decimals=0, thresholds=NONE_IS_GOOD),
    figure("Events dropped", "Events of Kubernetes that were not written, in the time that is shown.",
           f"sum(increase(holdfast_events_dropped_total{{{SEEN}}}[$__range]))", "none", NO_OPERATOR, decimals=0),
)  # fmt: skip

DECISIONS = (
    curves("Passes", "Passes over jobs, by result.", "ops", NO_LEADER, rate("holdfast_reconcile_total", "result"),
           custom=STACKED),
    curves("Duration of a pass", "From the beginning of a pass to its last write.", "s", NO_LEADER,
           Query(quantile(0.5, "holdfast_reconcile_duration_seconds", where=SEEN), "p50"),
           Query(quantile(0.99, "holdfast_reconcile_duration_seconds", where=SEEN), "p99")),
    curves("Rules", "Rows of the table of decisions that fired; docs/reference/decisions.md names them.", "ops",
           "no rule fired in this time",
           Query(f"topk(10, sum by (rule) (rate(holdfast_decisions_total{{{SEEN}}}[$__rate_interval])))", "{{rule}}"),
           custom=STACKED),
    curves("Queue", "Jobs that wait for a worker, and jobs that are looked at again later.", "none", NO_LEADER,
           Query(f"sum(holdfast_queue_depth{{{SEEN}}})", "waiting"),
           Query(f"sum(holdfast_queue_scheduled{{{SEEN}}})", "later"), decimals=0),
)  # fmt: skip

API_SERVER = (
    curves("Requests by status", "Requests to the API server. 0: no answer.", "reqps", NO_OPERATOR,
           rate("holdfast_api_requests_total", "code"), custom=STACKED),
    curves("Writes by resource", "Requests to the API server that write.", "reqps", "no write in this time",
           Query('sum by (verb, resource) (rate(holdfast_api_requests_total{verb=~"create|patch|update|delete", '
                 f"{SEEN}}}[$__rate_interval]))", "{{verb}} {{resource}}"), custom=STACKED),
    curves("Duration of requests", "99 % of the requests took at most this time, by verb.", "s", NO_OPERATOR,
           Query(quantile(0.99, "holdfast_api_request_duration_seconds", "verb", where=SEEN), "{{verb}}")),
    curves("Age of watches", "Time since a watch received anything; over 3 minutes it is silent.", "s", NO_OPERATOR,
           Query(f"max by (resource) (holdfast_watch_age_seconds{{{SEEN}}})", "{{resource}}")),
    curves("Watches opened", "New connections of watches, by resource.", "none", "no watch was opened in this time",
           Query(f"sum by (resource) (increase(holdfast_watch_connects_total{{{SEEN}}}[$__rate_interval]))",
                 "{{resource}}"), custom=BARS, interval="10m", decimals=0),
    curves("Age of the lists", "Time since all objects were listed again.", "s", "no full list yet",
           Query(highest("holdfast_resync_age_seconds"), "all objects")),
)  # fmt: skip

PODS = (
    curves("Requests of pods", "Requests to the endpoint that pods report to.", "reqps", "no pod reports",
           rate("holdfast_progress_requests_total", "route", "code"), custom=STACKED),
    curves("Waiting pods", "Requests that wait for an order, and launchers that wait for other nodes.", "none",
           NO_OPERATOR, Query(f"sum(holdfast_order_waits{{{SEEN}}})", "for orders"),
           Query(f"sum(holdfast_member_waits{{{SEEN}}})", "for other nodes"), decimals=0),
    curves("Orders", "Orders that were handed to pods, by type.", "none", "no order in this time",
           Query(f"sum by (type) (increase(holdfast_orders_delivered_total{{{SEEN}}}[$__rate_interval]))", "{{type}}"),
           custom=BARS, interval="10m", decimals=0),
    curves("Delay of orders", "From the decision until the order is handed to the pod.", "s", "no order in this time",
           Query(quantile(0.5, "holdfast_order_delivery_seconds", where=SEEN), "p50"),
           Query(quantile(0.99, "holdfast_order_delivery_seconds", where=SEEN), "p99"), interval="10m"),
)  # fmt: skip

PROCESS = (
    curves("CPU", "Share of one core that each operator uses.", "percentunit", NO_OPERATOR,
           Query(f"rate(process_cpu_seconds_total{{{SEEN}}}[$__rate_interval]) and on (instance, job) "
                 "holdfast_build_info", "{{instance}}"), min=0),
    curves("Memory", "Resident memory of each operator.", "bytes", NO_OPERATOR,
           Query(of_process("process_resident_memory_bytes"), "{{instance}}"), min=0),
    curves("Delay of the event loop", "How much later than asked the event loop goes on with a task.", "s", NO_OPERATOR,
           Query(quantile(0.5, "holdfast_event_loop_lag_seconds", where=SEEN), "p50"),
           Query(quantile(0.99, "holdfast_event_loop_lag_seconds", where=SEEN), "p99")),
    curves("Rendering of metrics", "Duration of the last rendering of /metrics, with the other work in between.", "s",
           NO_OPERATOR, Query(f"holdfast_metrics_render_seconds{{{SEEN}}}", "{{instance}}")),
    curves("Full garbage collections", "Collections of the oldest generation: the operator does them when it idles.",
           "none", NO_OPERATOR,
           Query(f'increase(python_gc_collections_total{{generation="2", {SEEN}}}[$__rate_interval]) '
                 "and on (instance, job) holdfast_build_info", "{{instance}}"),
           custom=BARS, interval="10m", decimals=0),
    curves("Jobs without own series", "Jobs that are only in the sums, because there are more than --metrics-jobs.",
           "none", NO_LEADER, Query(highest("holdfast_jobs_omitted"), "omitted"), decimals=0),
)  # fmt: skip

OPERATOR = Dashboard(
    "holdfast-operator",
    "Holdfast: operator",
    "The operator itself: whether it leads, keeps up, and is answered. Most figures are of the leader.",
    (choice("instance", "Operator", "label_values(holdfast_build_info, instance)", with_all=True),),
    {"Overview": OVERVIEW, "Decisions": DECISIONS, "API server": API_SERVER, "Pods": PODS, "Process": PROCESS},
    time="now-6h",
)  # fmt: skip
