from datetime import timedelta

import pytest
from pydantic import ValidationError

from holdfast.runtime.command import settings_from
from holdfast.runtime.errors import ConfigurationError
from holdfast.runtime.settings import Settings, split_address


def test_defaults_are_valid_and_make_a_config() -> None:
    settings = Settings()
    assert settings.service_url == "https://holdfast.holdfast-system.svc:8443"
    assert settings.operator_config().progress_url == settings.service_url


def test_durations_of_the_core_can_be_set_by_name() -> None:
    settings = settings_from({"patience": ["start_timeout=3", "backoff_base=0.5"], "seed": None})
    assert settings.operator_config().start_timeout == timedelta(seconds=3)
    assert settings.operator_config().backoff_base == timedelta(milliseconds=500)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lease_duration": 5.0, "lease_renew": 4.0}, "lease_renew"),
        ({"workers": 0}, "--workers"),
        ({"progress_url": "http://plain"}, "--progress-url"),
        ({"namespace": "Not A Name"}, "--namespace"),
        ({"health_bind": "nowhere"}, "--health-bind"),
        ({"patience": ["nonsense=3"]}, "unknown duration"),
        ({"patience": ["start_timeout"]}, "NAME=SECONDS"),
        ({"patience": ["start_timeout=0"]}, "--patience"),
    ],
)
def test_bad_settings_are_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        settings_from(values)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValidationError):
        Settings(speed=3)  # type: ignore[call-arg]


def test_addresses() -> None:
    assert split_address(":8443") == (None, 8443)
    assert split_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert split_address("[::1]:80") == ("::1", 80)
