"""The gates of features that are off."""

import json
from pathlib import Path

import pytest

from holdfast_protocol.gates import GATES, PEER_COPIES, read
from holdfast_protocol.settings import Settings

CHART = Path(__file__).resolve().parents[3] / "charts" / "holdfast"


def test_what_is_turned_on() -> None:
    assert read("") == frozenset()
    assert read("PeerCopies=true,NcclRas=false,RestartInPlace=true") == {"PeerCopies", "RestartInPlace"}
    assert Settings(gates=("PeerCopies", "OfANewerOperator")).is_on(PEER_COPIES)
    assert not any(Settings().is_on(gate) for gate in GATES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Other=true", "Other: unknown gate; allowed are FrozenChecksumsOnCuda, "),
        ("NcclRas=yes", "NcclRas=yes: must be NcclRas=true or NcclRas=false"),
        ("NcclRas=true,NcclRas=true", "NcclRas: is there twice; name it once"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(text)


# Breaks if the chart refuses a gate that the operator knows, or lets one pass with which the operator does not start.
def test_the_chart_knows_the_same_gates() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    names = schema["properties"]["featureGates"]["propertyNames"]["enum"]
    assert names == [gate.name for gate in GATES]
