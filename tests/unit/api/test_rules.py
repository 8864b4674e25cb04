"""Rules: one declaration, in CEL and in Python. That both agree is tested on the real API server."""

import pytest
from pydantic import ValidationError
from tests.support.manifests.good_manifests import TIER

from holdfast.api.job import Capacity
from holdfast.api.model import Model
from holdfast.api.profile import CapacityProfileSpec
from holdfast.api.rules import Rule, at_most_one, exactly_one, snake_case, validations
from holdfast.api.storage import Storage


class Pair(Model):
    """Two fields."""

    first_one: str | None = None
    s3: str | None = None


@pytest.mark.parametrize(
    ("pair", "one", "most"),
    [
        (Pair(), "none", None),
        (Pair(first_one=""), None, None),
        (Pair(s3="x"), None, None),
        (Pair(first_one="a", s3="b"), "these: firstOne s3", "these: firstOne s3"),
    ],
)
def test_counting_fields(pair: Pair, one: str | None, most: str | None) -> None:
    for rule, got in ((exactly_one("firstOne", "s3"), one), (at_most_one("firstOne", "s3"), most)):
        violation = rule.broken_by(pair)
        assert (violation.got if violation else None) == got


def test_the_schema_holds_message_and_place() -> None:
    rule = Rule(allowed='say "x"', cel="self.a", is_met=None, got_cel="self.b", field=".a")
    assert rule.to_schema() == {
        "rule": "self.a",
        "message": 'say "x"',
        "messageExpression": '"say \\"x\\"; got " + self.b',
        "fieldPath": ".a",
    }
    assert Rule(allowed="a", cel="b", is_met=None).to_schema() == {"rule": "b", "message": "a"}
    assert validations(()) == {}


def test_a_rule_about_changes_never_blames_one_object() -> None:
    assert Rule(allowed="a", cel="self == oldSelf", is_met=None).broken_by(Pair()) is None


def test_every_rule_that_needs_no_old_object_is_said_in_python_too() -> None:
    def models(base: type[Model]) -> set[type[Model]]:
        return {base}.union(*(models(sub) for sub in base.__subclasses__()))

    rules = [rule for model in models(Model) if model.__module__.startswith("holdfast.") for rule in model.rules]
    assert len(rules) > 15
    assert all((rule.is_met is None) == ("oldSelf" in rule.cel) for rule in rules)
    assert all(rule.got for rule in rules if rule.is_met)


def test_python_names() -> None:
    assert [snake_case(name) for name in ("s3", "volumeClaim", "pricePerNodeHour")] == [
        "s3", "volume_claim", "price_per_node_hour",
    ]  # fmt: skip


def test_models_obey_their_rules() -> None:
    with pytest.raises(ValueError, match="exactly one of profile and tiers"):
        Capacity()
    with pytest.raises(ValueError, match="exactly one of s3 and volumeClaim"):
        Storage()


def test_two_items_never_share_a_key() -> None:
    assert len(CapacityProfileSpec.model_validate({"tiers": [TIER, {**TIER, "name": "b"}]}).tiers) == 2
    with pytest.raises(ValidationError, match='"spot": no two items may have the same name'):
        CapacityProfileSpec.model_validate({"tiers": [TIER, TIER]})
