"""The settings of a pod: any pod, old or new, reads what an operator writes; nothing wrong becomes a default."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocol.strategies import JSON, TEXTS, documents

from holdfast_local.agent.container.env import expand
from holdfast_protocol import settings
from holdfast_protocol.document import DocumentError, encode, to_text
from holdfast_protocol.settings import Every, Keep, Settings, Spike, Stall


def consistent(one: Settings) -> Settings:
    """Without what no operator writes: names of objects without an address, and the best by no metric."""
    only = () if one.resume in settings.ADDRESSES else one.resume_only
    return replace(one, resume_only=only, keep=replace(one.keep, metric=one.keep.metric or "loss"))


SETTINGS = documents(Settings).map(consistent)
FIELDS = [*encode(Settings(folder="x", operator_url="x", spike=Spike(), stall=Stall(), upload_rate=1))]


def read(text: str) -> Settings:
    return settings.read({"HOLDFAST_SETTINGS": text})


def test_outside_a_pod_all_have_their_defaults() -> None:
    assert settings.read({}) == read("{}") == Settings()
    assert Settings().every == Every() and Settings().keep == Keep(3) and Settings().stall is None


# Breaks if a value changes on its way: by JSON, or by Kubernetes, which expands $(NAME) and $$.
@given(SETTINGS)
def test_a_pod_reads_what_an_operator_writes(written: Settings) -> None:
    assert read(expand(to_text(written), {"HOME": "/root", "JOB": "x"})) == written


# Breaks if a pod cannot run under a newer operator.
@given(SETTINGS, st.dictionaries(TEXTS.map(lambda name: f"x{name}"), JSON, max_size=3))
def test_fields_of_a_newer_operator_are_ignored(written: Settings, more: dict[str, Any]) -> None:
    document = encode(written)
    for part in (document, document["every"], document["keep"]):
        part.update(more)
    assert read(json.dumps(document)) == written


# Breaks if a pod cannot run under an older operator.
@given(SETTINGS, st.sets(st.sampled_from([*encode(Settings())])))
def test_fields_that_an_older_operator_does_not_know_have_their_defaults(written: Settings, gone: set[str]) -> None:
    document = {name: value for name, value in encode(written).items() if name not in gone}
    if "resume" in gone:
        document.pop("resumeOnly", None)
    found = encode(read(json.dumps(document)))
    assert found == {**encode(Settings()), **document}


@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(encode(Settings(folder="x")), JSON)))
def test_garbage_is_read_or_refused_with_words(content: Any) -> None:
    try:
        read(json.dumps(content))
    except DocumentError as error:
        assert str(error).startswith("HOLDFAST_SETTINGS")
        assert "; allowed: " in str(error)


@given(st.text())
def test_text_that_is_not_json_is_refused_with_words(content: str) -> None:
    try:
        read(content)
    except DocumentError as error:
        assert str(error).startswith("HOLDFAST_SETTINGS")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"version": 2}, "HOLDFAST_SETTINGS.version is 2; allowed: at most 1: use an operator and an image whose"),
        ({"version": 2, "every": "auto"}, "HOLDFAST_SETTINGS.version is 2; allowed: at most 1"),
        ({"version": 0}, "HOLDFAST_SETTINGS.version is 0; allowed"),
        ({"peers": "yes"}, "HOLDFAST_SETTINGS.peers is 'yes'; allowed: true or false"),
        (
            {"resumeOnly": ["model"]},
            "HOLDFAST_SETTINGS.resumeOnly is ['model']; allowed: only with an address",
        ),
        ({"resume": "s3://b/p", "resumeOnly": ["model", ""]}, "HOLDFAST_SETTINGS.resumeOnly is"),
        ({"uploadRate": 0}, "HOLDFAST_SETTINGS.uploadRate is 0; allowed: a whole number from 1"),
        ({"grace": "1m"}, "HOLDFAST_SETTINGS.grace is '1m'; allowed: a number of seconds"),
        ({"every": {"steps": 0}}, "HOLDFAST_SETTINGS.every.steps is 0; allowed"),
        ({"every": {"seconds": 0}}, "HOLDFAST_SETTINGS.every.seconds is 0; allowed: a number of seconds above 0"),
        ({"every": {"maxLostWork": 0}}, "HOLDFAST_SETTINGS.every.maxLostWork is 0; allowed"),
        ({"every": {"meanTimeBetweenInterruptions": 0}}, "every.meanTimeBetweenInterruptions is 0; allowed"),
        ({"keep": {"last": 0}}, "HOLDFAST_SETTINGS.keep.last is 0; allowed"),
        ({"keep": {"best": 1}}, "HOLDFAST_SETTINGS.keep.metric is None; allowed: the name of a metric"),
        ({"keep": {"mode": "min"}}, "HOLDFAST_SETTINGS.keep.mode is 'min'; allowed: Min or Max"),
        ({"spike": {"steps": 0}}, "HOLDFAST_SETTINGS.spike.steps is 0; allowed"),
        ({"slowWindow": "5m"}, "HOLDFAST_SETTINGS.slowWindow is '5m'; allowed"),
        ({"stall": "Auto"}, "HOLDFAST_SETTINGS.stall is 'Auto'; allowed: an object"),
        ({"data": [{"from": "s3://b/p", "to": "/x"}]}, "HOLDFAST_SETTINGS.data[0].mount is None; allowed: a value"),
    ],
)
def test_wrong_values_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DocumentError) as found:
        read(json.dumps(given))
    assert words in str(found.value)


def test_a_hang_is_looked_for_with_a_limit_or_without() -> None:
    assert (read('{"stall": {}}').stall, read('{"stall": {"timeout": 60}}').stall) == (Stall(), Stall(60.0))
