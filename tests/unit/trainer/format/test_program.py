"""What a resume finds changed: the words that describe a program, and the rules that compare them."""

import enum
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.data.elastic_sampler import ElasticSampler
from holdfast_train.errors import StateError
from holdfast_train.format.program import RULES, Finding, Program, Severity, compare, describe, refusal

SEVERITIES = st.sampled_from(["refuse", "warn", "ignore"])


class Optimizer(enum.Enum):
    ADAM = "adam"


@dataclass
class Model:
    depth: int
    path: Path


class Data:
    def __init__(self, fingerprint: Any) -> None:
        self.fingerprint = lambda: fingerprint


def words(config: Any) -> Mapping[str, str]:
    found = describe(config=config).words
    return {word: value for word, value in found.items() if word.startswith("config")}


def rules(saved: Program, now: Program, **severities: Severity) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in compare(saved, now, severities)]


def test_this_program() -> None:
    found = describe(config={"rate": 0.1}, objects={"sampler": ElasticSampler(9, batch=3, seed=1)}, ranks=4, nodes=2)
    assert found.versions["python"].split(".")[0] == str(sys.version_info.major)
    assert {"ranks": "4", "nodes": "2", "data/sampler/seed": "1", "data/sampler/samples": "9"}.items() <= (
        found.words.items()
    )
    assert {"device", "config", "config/rate"} <= set(found.words)
    assert compare(found, found) == []


def test_a_configuration_is_what_it_says_not_how() -> None:
    plain = {"model": {"depth": 2, "path": "/data"}, "rate": 1, "kind": "adam", "betas": [0.9, 0.95]}
    same = Namespace(
        betas=(0.9, 0.95), kind=Optimizer.ADAM, rate=1.0, model=Model(2, Path("/data"))
    )  # another order, other types
    assert words(plain) == words(same)
    assert set(words(plain)) == {
        "config",
        *(f"config/{key}" for key in ("betas", "kind", "rate", "model/depth", "model/path")),
    }
    assert not any("adam" in value or "/data" in value for value in words(plain).values())  # hashes only


@pytest.mark.parametrize("other", [True, "1", 1.5, [1], None, {"a": 1}])
def test_values_that_differ(other: Any) -> None:
    assert words({"x": 1})["config/x" if not isinstance(other, dict) else "config"] != words({"x": other}).get(
        "config/x"
    )
    assert words({"x": 1})["config"] != words({"x": other})["config"]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), json_like, max_size=4))
def test_any_configuration_equals_itself_and_no_other(config: dict[str, Any]) -> None:
    assert words(config) == words(dict(reversed(config.items())))
    assert words(config)["config"] != words({**config, "one more": 1})["config"]


@pytest.mark.parametrize("value", [len, object(), {1, 2}, Model])
def test_a_value_that_is_not_plain_is_named(value: Any) -> None:
    with pytest.raises(StateError, match=r"config/model/1 is a .*; allowed in a configuration: numbers"):
        describe(config={"model": [1, value]})


def test_fingerprints() -> None:
    found = describe(objects={"data": Data("abc"), "more": Data({"files": "7"}), "model": object()}).words
    assert {word: value for word, value in found.items() if word.startswith("data/")} == {
        "data/data": "abc",
        "data/more/files": "7",
    }
    with pytest.raises(StateError, match=r"fingerprint\(\) of 'data' returns a int"):
        describe(objects={"data": Data(7)})


def program(**changed: str) -> Program:
    known = {"config": "c1", "config/rate": "r1", "config/depth": "d1", "revision": "a" * 40, "ranks": "4"}
    known |= {"nodes": "2", "device": "H200", "data/sampler/seed": "0", "data/sampler/batch": "512", "data/set": "f1"}
    known |= {"object/model": "model", "code": "c" * 64, "dependencies": "e" * 64}
    libraries = {"python": "3.11.7", "torch": "2.9.1", "numpy": "2.4.6"}
    replaced = {name.replace("__", "/"): value for name, value in changed.items()}
    return Program(
        {name: replaced.get(name, value) for name, value in libraries.items()},
        {word: value for word, value in {**known, **replaced}.items() if value and word not in libraries},
    )


@pytest.mark.parametrize(
    ("changed", "found", "said"),
    [
        ({}, [], ""),
        ({"data__sampler__seed": "1"}, [("SeedChanged", "refuse")], "sampler/seed is 1, the checkpoint's was 0"),
        ({"data__sampler__batch": "256"}, [("BatchChanged", "refuse")], "sampler/batch is 256"),
        (
            {"object__ema": "ema"},
            [("ObjectAdded", "refuse")],
            "Run is given 'ema', which the checkpoint does not contain",
        ),
        ({"object__model": ""}, [("ObjectRemoved", "warn")], "the checkpoint contains 'model', which Run is not given"),
        ({"data__set": "f2"}, [("DataChanged", "warn")], "set is f2, the checkpoint's was f1"),
        ({"config": "c2", "config__rate": "r2"}, [("ConfigChanged", "warn")], "since the checkpoint: rate"),
        (
            {"revision": "b" * 40},
            [("RevisionChanged", "warn")],
            "is bbbbbbbbbbbb, the checkpoint's was aaaaaaaaa",
        ),
        ({"code": "d" * 64}, [("CodeChanged", "warn")], "is dddddddddddd, the checkpoint's was cccccccccccc"),
        (
            {"dependencies": "f" * 64},
            [("DependenciesChanged", "warn")],
            "are ffffffffffff, the checkpoint's were eeeeeeeeeeee",
        ),
        ({"dependencies": ""}, [("DependenciesChanged", "warn")], "are none, the checkpoint's were eeeeeeeeeeee"),
        ({"ranks": "8", "nodes": "4"}, [("WorldSizeChanged", "warn")], "sample-exact, not bitwise"),
        ({"nodes": "1"}, [("NodesChanged", "warn")], "on 1 nodes, they were on 2"),
        ({"device": "A100"}, [("DeviceChanged", "warn")], "is A100, the checkpoint's was H200"),
        ({"torch": "3.0.0"}, [("MajorVersionChanged", "warn")], "torch is 3.0.0, was 2.9.1: another major"),
        ({"torch": "2.10.0"}, [("VersionChanged", "warn")], "torch is 2.10.0, was 2.9.1: numbers may differ"),
        (
            {"torch": "3.0.0", "numpy": "2.5.0", "data__sampler__seed": "1"},
            [("SeedChanged", "refuse"), ("MajorVersionChanged", "warn"), ("VersionChanged", "warn")],
            "numpy is 2.5.0, was 2.4.6",
        ),
    ],
)
def test_rules(changed: dict[str, str], found: list[tuple[str, str]], said: str) -> None:
    findings = compare(program(), program(**changed))
    assert [(finding.rule, finding.severity) for finding in findings] == found
    assert said in "; ".join(finding.sentence for finding in findings)


def test_every_rule_is_tested_and_documented() -> None:
    tested = {rule for case in test_rules.pytestmark[0].args[1] for rule, _ in case[1]}  # type: ignore[attr-defined]
    assert tested == set(RULES)
    table = (Path(__file__).parents[4] / "docs" / "reference" / "changed-program.md").read_text()
    for name, (severity, _) in RULES.items():
        assert f"| `{name}` | {severity}" in table


def test_a_word_that_one_does_not_know_is_not_compared() -> None:
    known = program(object__model="")
    assert compare(Program(), known) == compare(known, Program()) == []


def test_many_changed_values_are_cut_short() -> None:
    saved, now = (Program(words={"config": at, **{f"config/k{n}": at for n in range(10)}}) for at in ("a", "b"))
    (finding,) = compare(saved, now)
    assert "k0, k1, k2, k3, k4, k5 and 4 more" in finding.sentence


def test_an_added_value_is_a_change() -> None:
    (finding,) = compare(describe(config={"rate": 1}), describe(config={"rate": 1, "decay": 0.1}))
    assert "since the checkpoint: decay" in finding.sentence


def test_severities_of_the_run() -> None:
    now = program(config="c2", config__rate="r2", revision="b" * 40)
    assert rules(program(), now, ConfigChanged="refuse", RevisionChanged="ignore") == [("ConfigChanged", "refuse")]
    with pytest.raises(StateError, match="no resume rule 'Config'; allowed: SeedChanged, "):
        compare(program(), now, {"Config": "warn"})
    with pytest.raises(StateError, match="allowed: refuse, warn, ignore"):
        compare(program(), now, {"ConfigChanged": "fail"})  # type: ignore[dict-item]
    with pytest.raises(StateError, match="always refuses"):
        compare(program(), now, {"SeedChanged": "warn"})


def test_what_a_refusal_says() -> None:
    warned, refused = Finding("A", "warn", "a is other"), Finding("B", "refuse", "b is other")
    assert refusal([]) is refusal([warned]) is None
    message = refusal([warned, refused])
    assert message is not None
    assert message.startswith("B: b is other. Undo this change")
