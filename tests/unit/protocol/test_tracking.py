"""Addresses of runs in trackers: what may be a link, and what is left out of it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.trainer import Tracking
from holdfast_protocol.document import DocumentError
from holdfast_protocol.report import read
from holdfast_protocol.tracking import MAX_TRACKERS, MAX_URL, MLFLOW, TRACKER_NAME, WANDB, to_url

GOOD = {"sender": "Library", "attempt": 1, "podUID": "6f-1", "state": "training"}
LONG = "https://wandb.ai/" + "x" * (MAX_URL - 17)
HOSTILE = [
    "javascript:alert(1)",
    "data:text/html,x",
    "//wandb.ai/x",
    "wandb.ai/x",
    "HTTPS://wandb.ai",
    "https://",
    "https:///x",
    "https://me@wandb.ai/x",
    "https://me:secret@wandb.ai/x",
    "https://wandb.ai\\@evil.example/x",
    "https://wandb.ai/x?apiKey=secret",
    "https://me:se/cret@wandb.ai/x",
    "https://me:12/34@wandb.ai/x",
    "https://[/x",
    "https://wandb.ai/x#access_token=secret",
    "https://wandb.ai/#/runs?token=secret",
    "https://wandb.ai/a b",
    "https://wandb.ai/a\n",
    "\nhttps://wandb.ai/a",
    "https://wandb.ai/a\u202e",
    'https://wandb.ai/"onclick="x',
    "https://wandb.ai/<b>",
    "https://wändb.example/x",
    "https://wandb.ai/" + "x" * 5000,
    LONG + "x",
    "",
]


def tracking(found: Any) -> Any:
    return read({**GOOD, "tracking": found}).tracking


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("https://wandb.ai/me/faces/runs/u-1", None),
        ("http://10.0.0.7:5000/#/experiments/0/runs/a1", None),
        ("http://[::1]:5000/x", None),
        ("https://wandb.ai/a%20b/runs/=+&$1", None),
        (LONG, None),
        ("https://me:secret@mlflow.example/a/#/x", "https://mlflow.example/a/#/x"),
        ("https://h.example/x#access_token=secret", "https://h.example/x"),
        ("https://wandb.ai/me/runs/1?apiKey=secret", "https://wandb.ai/me/runs/1"),
        ("https://h.example/x?key=secret#/runs/1?key=secret", "https://h.example/x#/runs/1"),
    ],
)
def test_secrets_are_left_out(told: str, shown: str | None) -> None:
    assert to_url(told) == (shown or told)
    assert tracking({"mlflow": to_url(told)}) == {"mlflow": shown or told}


# Breaks if the operator trusts a pod to have left out what no one may see, or no browser may get.
@pytest.mark.parametrize("url", [*HOSTILE, 5, ["https://wandb.ai"], {"url": "x"}])
def test_the_operator_refuses_what_is_no_plain_address(url: object) -> None:
    with pytest.raises(DocumentError, match=r"tracking\.wandb is .*; allowed: a web address of at most 512 characters"):
        tracking({"wandb": url})


@pytest.mark.parametrize("found", [{"W&B": LONG}, {"a" * 33: LONG}, {f"t{n}": LONG for n in range(5)}, [LONG], LONG])
def test_the_operator_refuses_other_names_and_more_trackers(found: object) -> None:
    with pytest.raises(DocumentError, match=f"allowed: an object of at most {MAX_TRACKERS} fields with names like"):
        tracking(found)


def test_a_report_of_an_older_pod_tells_none() -> None:
    assert read(GOOD).tracking == tracking(None) == {}


# Breaks if there is a text of which a pod makes an address that the operator refuses, with the rest of the report.
@given(st.one_of(st.text(), st.sampled_from(HOSTILE), st.from_regex(re.compile(r"https?://\S{0,40}"))))
def test_what_a_pod_tells_is_taken(told: str) -> None:
    url = to_url(told)
    assert url is None or tracking({"wandb": url}) == {"wandb": url}


def test_names_are_those_of_the_fields_of_the_job() -> None:
    assert all(TRACKER_NAME.fullmatch(name) for name in Tracking.model_fields)
    assert {MLFLOW, WANDB} == set(Tracking.model_fields)
