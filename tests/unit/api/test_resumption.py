"""`checkpoint.resume`: a string or an object. What the API server refuses is in the integration tests."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.api.job import Checkpoint
from holdfast.api.resumption import Resume, WarmStart

STORAGE = {"s3": {"bucket": "runs", "prefix": "a"}}
WARM = {"from": "s3://runs/b", "only": ["model", "ema_2"]}


# Breaks if what the API server stores is not what was written.
@pytest.mark.parametrize("given", ["Auto", "Never", "s3://runs/a/b", "file:///a/b", WARM])
def test_it_is_written_as_it_was_read(given: Any) -> None:
    found = Checkpoint.model_validate({"storage": STORAGE, "resume": given})
    assert found.to_object()["resume"] == given
    assert Checkpoint.model_validate(found.to_object()) == found


def test_the_parts_of_an_object() -> None:
    found = TypeAdapter(Resume).validate_python(WARM)
    assert found == WarmStart(source="s3://runs/b", only=("model", "ema_2"))
    assert Checkpoint.model_validate({"storage": STORAGE}).resume == "Auto"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("auto", "Auto, Never or a checkpoint's address"),
        ("s3://runs", "Auto, Never or a checkpoint's address"),
        (5, "or an object with the fields from and only"),
        (["s3://runs/a"], "or an object with the fields from and only"),
        ({**WARM, "step": 4}, "or an object with the fields from and only"),
        ({"from": "s3://runs/b"}, "only\n  Field required"),
        ({"only": ["model"]}, "from\n  Field required"),
        ({**WARM, "from": "Never"}, "must be a checkpoint's address"),
        ({**WARM, "only": []}, "at least 1 item"),
        ({**WARM, "only": ["a.b"]}, "the name of an object of the Run"),
    ],
)
def test_other_forms_are_refused(bad: Any, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Resume).validate_python(bad)
    assert words in str(refused.value)
