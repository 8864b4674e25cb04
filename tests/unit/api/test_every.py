"""How often to save: read, written, and compared with what an interruption may cost."""

from datetime import timedelta

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.api.every import Every
from holdfast.api.job import Checkpoint

STORAGE = {"s3": {"bucket": "runs", "prefix": "p"}}


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("500 steps", Every(steps=500)),
        ("1 step", Every(steps=1)),
        ("10m", Every(period=timedelta(minutes=10))),
        ("1h30m", Every(period=timedelta(minutes=90))),
        ("auto", Every(auto=True)),
    ],
)
def test_save_intervals_are_read(text: str, every: Every) -> None:
    assert Every.model_validate(text) == every
    assert Every.model_validate(str(every)) == every
    assert TypeAdapter(Every).dump_python(every, mode="json") == str(every)


@pytest.mark.parametrize(
    "text", ["", "500", "0 steps", "500steps", "often", "0s", "8d", "1.5h", "Auto", "auto ", 500, None, True]
)
def test_a_text_that_is_not_a_save_interval_is_refused(text: object) -> None:
    with pytest.raises(ValidationError, match="500 steps or 10m"):
        Every.model_validate(text)


@pytest.mark.parametrize(
    "fields",
    [{}, {"steps": 1, "period": timedelta(minutes=1)}, {"steps": 0}, {"auto": False}, {"auto": True, "steps": 5}],
)
def test_a_save_interval_is_steps_or_time_or_auto(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="500 steps or 10m"):
        Every.model_validate(fields)


@pytest.mark.parametrize(
    ("every", "most", "good"),
    [
        ("10m", "10m", True),
        ("10m", "599s999ms", False),
        ("600s", "10m", True),
        ("1d", "24h", True),
        ("1d1us", "24h", False),
        ("24h", "1d", True),
        ("47h", "1d", False),
        ("1500ms", "1500ms", True),
        ("auto", "1s", True),
        ("500 steps", "1s", True),
        (None, "10m", True),  # 10m is the default
        (None, "5m", False),
        ("7d", None, True),
    ],
)
def test_an_interruption_costs_at_least_an_interval(every: str | None, most: str | None, good: bool) -> None:
    """That the API server says the same is tested in tests/integration/api."""
    given = {name: value for name, value in (("every", every), ("maxLostWork", most)) if value}
    if good:
        Checkpoint.model_validate({"storage": STORAGE, **given})
        return
    with pytest.raises(ValidationError, match="maxLostWork must be at least as long as every"):
        Checkpoint.model_validate({"storage": STORAGE, **given})
