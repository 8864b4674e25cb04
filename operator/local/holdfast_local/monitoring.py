"""The Prometheus of a local cluster: its settings, the alert rules of the chart, and the addresses that it scrapes.

An operator starts after it, at any address: Prometheus reads the addresses from a file, again and again.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import yaml

from holdfast_local.errors import LocalError
from holdfast_local.layout import Layout
from holdfast_local.ports import HOST
from holdfast_local.processes import ProcessRecord, clean_environment
from holdfast_local.state import ClusterState

SCRAPE_INTERVAL = 2  # seconds: a local cluster lives for minutes
RETENTION = "30d"
_CHECKOUT = Path(__file__).resolve().parents[3]
RULES = _CHECKOUT / "charts" / "holdfast" / "files" / "alerts.yaml"
DASHBOARDS = RULES.parent / "dashboards"
RUNBOOKS = _CHECKOUT / "docs" / "runbooks"


def check_possible() -> None:
    """Raises LocalError if the chart's alert rules are not there: without a checkout they are not installed."""
    if not RULES.is_file():
        raise LocalError(
            f"--with prometheus: the alert rules {RULES} were not found. Run `holdfast local up` from a checkout of "
            "the repository (`make setup`), or without --with prometheus"
        )


def write_settings(layout: Layout, targets: Sequence[str]) -> None:
    """Write the settings, the alert rules and the addresses to scrape below `layout.prometheus`."""
    layout.prometheus.mkdir(mode=0o700)
    settings = {
        "global": {"scrape_interval": f"{SCRAPE_INTERVAL}s", "evaluation_interval": f"{SCRAPE_INTERVAL}s"},
        "rule_files": [str(layout.prometheus / "alerts.yaml")],
        "scrape_configs": [
            {
                "job_name": "holdfast",
                "file_sd_configs": [{"files": [str(_targets(layout))], "refresh_interval": f"{SCRAPE_INTERVAL}s"}],
            }
        ],
    }
    (layout.prometheus / "prometheus.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    rules = RULES.read_text(encoding="utf-8").replace("RUNBOOKS", str(RUNBOOKS))
    (layout.prometheus / "alerts.yaml").write_text(rules, encoding="utf-8")
    write_targets(layout, targets)


def write_targets(layout: Layout, targets: Sequence[str]) -> None:
    """Let Prometheus scrape http://TARGET/metrics of these addresses, each as `host:port`, and no others."""
    path = _targets(layout)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([{"targets": list(targets)}]) + "\n", encoding="utf-8")
    fresh.replace(path)


def _targets(layout: Layout) -> Path:
    return layout.prometheus / "targets.json"


def prometheus(state: ClusterState) -> ProcessRecord:
    """Prometheus on the loopback address, with its data below the cluster's folder."""
    layout = Layout(state.config.root)
    argv = [
        str(state.tools["prometheus"]),
        f"--config.file={layout.prometheus / 'prometheus.yaml'}",
        f"--storage.tsdb.path={layout.prometheus / 'data'}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={HOST}:{state.ports['prometheus']}",
        *state.config.extra_args.get("prometheus", []),
    ]
    return ProcessRecord(name="prometheus", argv=argv, env=clean_environment(), log=layout.log("prometheus"))
