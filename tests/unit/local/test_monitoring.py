"""Prometheus' settings: the chart's rules with pages that exist, the operator's addresses, loopback only."""

import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from holdfast_local import monitoring
from holdfast_local.cluster import Cluster, up
from holdfast_local.config import ClusterConfig
from holdfast_local.errors import LocalError
from holdfast_local.layout import Layout
from holdfast_local.state import ClusterState


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def state(root: Path, *, prometheus: bool) -> ClusterState:
    config = ClusterConfig(root=root, prometheus=prometheus, extra_args={"prometheus": ["--log.level=debug"]})
    tools = {"prometheus": Path("/t/prometheus")}
    return ClusterState(config=config, server="https://127.0.0.1:1", ports={"prometheus": 30009}, tools=tools)


def targets(layout: Layout) -> list[str]:
    (group,) = json.loads((layout.prometheus / "targets.json").read_text())
    found: list[str] = group["targets"]
    return found


def test_the_settings_name_files_that_there_are(layout: Layout) -> None:
    monitoring.write_settings(layout, ["127.0.0.1:9443"])
    settings = yaml.safe_load((layout.prometheus / "prometheus.yaml").read_text())
    (rules,) = settings["rule_files"]
    assert Path(rules).is_file()
    (scrape,) = settings["scrape_configs"]
    assert scrape["file_sd_configs"][0]["files"] == [str(layout.prometheus / "targets.json")]
    assert targets(layout) == ["127.0.0.1:9443"]


# Breaks if an alert of the local Prometheus has no page, or a rule of the chart is left out.
def test_the_rules_are_those_of_the_chart_with_pages_of_the_checkout(layout: Layout) -> None:
    monitoring.write_settings(layout, [])
    written, charts = (
        [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
        for path in (layout.prometheus / "alerts.yaml", monitoring.RULES)
    )
    assert [rule["expr"] for rule in written] == [rule["expr"] for rule in charts]
    assert all(Path(rule["annotations"]["runbook_url"]).is_file() for rule in written)


def test_addresses_can_be_replaced(layout: Layout) -> None:
    monitoring.write_settings(layout, ["127.0.0.1:9443"])
    state(layout.root, prometheus=True).save()
    Cluster.load(layout.root).scrape("127.0.0.1:7", "[::1]:8")
    assert targets(layout) == ["127.0.0.1:7", "[::1]:8"]


def test_it_listens_on_loopback_only_and_keeps_its_data_below_the_root(layout: Layout) -> None:
    record = monitoring.prometheus(state(layout.root, prometheus=True))
    assert "--web.listen-address=127.0.0.1:30009" in record.argv
    assert f"--storage.tsdb.path={layout.root}/prometheus/data" in record.argv
    assert record.argv[-1] == "--log.level=debug", "further arguments come last, so that they win"


def test_a_cluster_without_it_says_how_to_get_it(layout: Layout) -> None:
    state(layout.root, prometheus=False).save()
    cluster = Cluster.load(layout.root)
    with pytest.raises(LocalError, match="up --with prometheus"):
        _ = cluster.prometheus
    with pytest.raises(LocalError, match="up --with prometheus"):
        cluster.scrape("127.0.0.1:7")


def test_without_a_checkout_it_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "RULES", tmp_path / "nothing.yaml")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    with pytest.raises(LocalError, match=r"nothing\.yaml were not found.*from a checkout"):
        up(ClusterConfig(root=tmp_path / "c", prometheus=True))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "target", ["9443", "127.0.0.1", "127.0.0.1:0", "a:65536", "http://a:1", "a b:1", "a:1/metrics"]
)
def test_what_is_no_address_is_refused(target: str) -> None:
    with pytest.raises(ValidationError, match="is not an address to scrape: write host:port"):
        ClusterConfig(scrape=(target,))
