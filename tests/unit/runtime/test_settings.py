import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.core.observe.nodes import FaultSigns
from holdfast.runtime.command import settings_from
from holdfast.runtime.errors import SettingsError
from holdfast.runtime.settings import Settings, split_address


def test_defaults_are_valid_and_make_a_config() -> None:
    settings = Settings()
    assert settings.service_url == "https://holdfast.holdfast-system.svc:8443"
    assert settings.operator_config().progress_url == settings.service_url


def test_gates_are_off_unless_they_are_turned_on() -> None:
    assert Settings().operator_config().gates == frozenset()
    given = settings_from({"feature_gates": "PeerCopies=true,NcclRas=false"})
    assert given.operator_config().gates == {"PeerCopies"}


def test_durations_of_the_core_can_be_set_by_name() -> None:
    settings = settings_from({"patience": ["start_timeout=3", "backoff_base=0.5"], "seed": None})
    assert settings.operator_config().start_timeout == timedelta(seconds=3)
    assert settings.operator_config().backoff_base == timedelta(milliseconds=500)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"lease_duration": 5.0, "lease_renew": 4.0},
            "--lease-renew: 4: must be at most half of --lease-duration (5 seconds)",
        ),
        ({"workers": "0"}, '--workers: "0": must be at least 1'),
        ({"workers": "x"}, '--workers: "x": must be a whole number'),
        ({"qps": "0"}, '--qps: "0": must be at least 1'),
        ({"log_level": "loud"}, "--log-level: \"loud\": must be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ({"progress_url": "http://plain"}, '--progress-url: "http://plain": must match ^https://'),
        ({"progress_url": "http://plain"}, ", for example https://holdfast.example:8443"),
        ({"namespace": "Not A Name"}, '--namespace: "Not A Name": must match '),
        ({"health_bind": "nowhere"}, ", for example 127.0.0.1:8443, or :8443 for all addresses"),
        ({"fault_conditions": "Ready"}, ", for example AcceleratedHardwareReady=False,GPUMissing=True,"),
        ({"patience": ["nonsense=3"]}, "--patience: nonsense: unknown duration; allowed are acknowledge_timeout, "),
        ({"patience": ["start_timeout"]}, '--patience: "start_timeout": must be NAME=SECONDS, for example start_'),
        ({"patience": ["start_timeout=x"]}, '--patience start_timeout: "x": must be a number'),
        ({"feature_gates": "Peers=true"}, "Peers: unknown gate; allowed are FrozenChecksumsOnCuda, SlowRanksOnGpus, "),
        ({"feature_gates": "PeerCopies"}, "PeerCopies: must be PeerCopies=true or PeerCopies=false"),
        ({"feature_gates": "NcclRas=true,NcclRas=false"}, "NcclRas: is there twice"),
        ({"patience": ["start_timeout=0"]}, '--patience start_timeout: "0": must be greater than 0'),
    ],
)
def test_an_error_names_the_option_what_was_found_and_what_is_allowed(values: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_from(values)
    assert words in str(refused.value)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValidationError):
        Settings(speed=3)  # type: ignore[call-arg]


def test_addresses() -> None:
    assert split_address(":8443") == (None, 8443)
    assert split_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert split_address("[::1]:80") == ("::1", 80)


def test_signs_of_broken_nodes() -> None:
    assert Settings().fault_signs() == FaultSigns()
    settings = Settings(fault_conditions="A=False,B/c=True", fault_taints="x.com/y,z")
    assert settings.fault_signs() == FaultSigns(
        conditions=frozenset({("A", "False"), ("B/c", "True")}), taints=frozenset({"x.com/y", "z"})
    )
    assert Settings(fault_conditions="").fault_signs() == FaultSigns(frozenset())


# Breaks if the example of the docs leaves a default condition out: a copy of it would turn that condition off.
def test_the_page_of_bad_nodes_names_every_default_condition_twice() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "bad-nodes.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^\| `HOLDFAST_FAULT_CONDITIONS` \| `([^`]+)`", text, re.MULTILINE)
    defaults = Settings().fault_conditions.split(",")
    assert set(example.split(",")) == {*defaults, "GpuHealthy=False"}
    assert [one for one in defaults if f"`{one}`" not in text] == []
