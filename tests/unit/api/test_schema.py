"""pydantic models -> structural schemas: what can be expressed is, what cannot raises."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import ConfigDict, Field

from holdfast.api.errors import SchemaError
from holdfast.api.every import Every
from holdfast.api.model import Model
from holdfast.api.rules import KeyedBy, Rule
from holdfast.api.scalars import Count, Duration, DurationBounds, Flag, Money, Quantity, Step, Time
from holdfast.api.schema import structural
from holdfast.api.strings import Label, LabelKey, LabelValue


class Colour(StrEnum):
    RED = "Red"


class Inner(Model):
    """Something inside."""

    name: Label
    """Its name."""
    size: Quantity = "1"
    """Its size."""


class Outer(Model):
    """Every kind of field."""

    flag: Flag = True
    """A flag."""
    count: Count = 3
    """A count."""
    step: Step | None = None
    """A step."""
    open_ended: Annotated[int, Field(strict=True, gt=0, lt=10)] = 5
    """Between bounds that do not belong."""
    colour: Colour = Colour.RED
    """An enumeration."""
    word: Literal["One"] = "One"
    """One word."""
    length: Annotated[timedelta, DurationBounds("1s", "1h")] = timedelta(seconds=100)
    """A bounded duration."""
    any_length: Duration | None = None
    """A duration."""
    price: Money | None = None
    """Money."""
    at: Time | None = None
    """A time."""
    every: Every = Every(steps=5)
    """An interval."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=4)] = Field(default_factory=dict)
    """A map."""
    inner: Inner = Inner(name="a")
    """An object with a default."""
    items: Annotated[tuple[Inner, ...], Field(max_length=4), KeyedBy("name")] = ()
    """A list with keys."""
    names: Annotated[tuple[Label, ...], Field(max_length=4)] = ()
    """A list of words."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(allowed="never", cel="self.count < 0", is_met=lambda _: True, got_cel="'\"x\"'", field=".count"),
    )


@pytest.fixture(scope="module")
def fields() -> dict[str, Any]:
    properties: dict[str, Any] = structural(Outer)["properties"]
    return properties


def test_plain_fields(fields: dict[str, Any]) -> None:
    assert fields["flag"] == {"type": "boolean", "description": "A flag.", "default": True}
    assert fields["count"]["format"] == "int32"
    assert fields["step"] == {
        "type": "integer", "format": "int64", "minimum": 0, "maximum": 2**53 - 1, "description": "A step.",
    }  # fmt: skip
    assert (fields["openEnded"]["minimum"], fields["openEnded"]["maximum"]) == (1, 9)
    assert fields["word"] == {"type": "string", "enum": ["One"], "default": "One", "description": "One word."}
    assert (fields["colour"]["enum"], fields["colour"]["default"]) == (["Red"], "Red")


def test_scalars_of_the_api(fields: dict[str, Any]) -> None:
    assert fields["length"]["default"] == "1m40s"
    assert "between 1s and 1h" in fields["length"]["x-kubernetes-validations"][0]["message"]
    assert "x-kubernetes-validations" not in fields["anyLength"]
    assert fields["price"]["x-kubernetes-int-or-string"] is True
    assert "type" not in fields["price"]
    assert fields["at"] == {"type": "string", "format": "date-time", "description": "A time."}
    assert (fields["every"]["type"], fields["every"]["default"]) == ("string", "5 steps")


def test_maps_lists_and_objects(fields: dict[str, Any]) -> None:
    assert fields["labels"]["additionalProperties"]["maxLength"] == 63
    assert fields["labels"]["x-kubernetes-validations"][0]["rule"].startswith("self.all(key,")
    assert fields["items"]["x-kubernetes-list-map-keys"] == ["name"]
    assert fields["names"]["x-kubernetes-list-type"] == "atomic"
    assert fields["inner"]["default"] == {"name": "a", "size": "1"}
    assert fields["inner"]["required"] == ["name"]
    assert "default" not in fields["items"]


def test_rules_come_with_the_words_of_both_kinds() -> None:
    assert structural(Outer)["x-kubernetes-validations"] == [
        {
            "rule": "self.count < 0",
            "message": "never",
            "messageExpression": "\"never; got \" + '\"x\"'",
            "fieldPath": ".count",
        }
    ]  # fmt: skip


def test_nothing_is_left_that_a_structural_schema_does_not_know() -> None:
    def names(value: Any, inside: str = "") -> set[str]:
        if isinstance(value, dict):
            own = set() if inside == "properties" else set(value)
            return own.union(*(names(item, key) for key, item in value.items() if key != "default"))
        return set().union(*(names(item) for item in value)) if isinstance(value, list) else set()

    assert not names(structural(Outer)) & {"$ref", "$defs", "anyOf", "const", "title", "patternProperties"}


def test_the_schema_of_a_status_has_no_defaults() -> None:
    assert not any("default" in field for field in structural(Outer, defaults=False)["properties"].values())


def test_list_keys_are_required_where_nothing_fills_them_in() -> None:
    class Keyed(Model):
        """A list whose key has a default in Python."""

        class Item(Model):
            """One."""

            rank: Count = 0
            """Its rank."""

        items: Annotated[tuple[Item, ...], Field(max_length=4), KeyedBy("rank")] = ()
        """All."""

    assert structural(Keyed, defaults=False)["properties"]["items"]["items"]["required"] == ["rank"]
    assert "required" not in structural(Keyed)["properties"]["items"]["items"]


class Loop(Model):
    """Contains itself."""

    loop: "Loop | None" = None
    """Itself."""


INEXPRESSIBLE = {
    "a float": (float, "type number"),
    "a choice": (int | str, "choice of 2 types"),
    "an unbounded string": (str, "needs maxLength"),
    "an unbounded integer": (int, "needs a minimum and a maximum"),
    "a bound that is no exact float": (Annotated[int, Field(ge=0, le=2**53 + 1)], "stored as another number"),
    "an unbounded list": (tuple[Label, ...], "needs maxItems"),
    "an unbounded map": (dict[str, Label], "needs maxProperties"),
    "a map with unbounded keys": (
        Annotated[dict[Annotated[str, Field(pattern="^a$")], Label], Field(max_length=4)],
        "keys of a map need maxLength",
    ),
    "anything": (Any, "type None"),
    "a pair": (tuple[Label, Label], "cannot express prefixItems"),
    "a decimal": (Decimal, "choice of 2 types"),
    "multiples": (Annotated[int, Field(multiple_of=2, ge=0, le=4)], "cannot express multipleOf"),
    "itself": (Loop, "contains itself"),
}


@pytest.mark.parametrize("name", INEXPRESSIBLE)
def test_what_cannot_be_expressed_raises(name: str) -> None:
    kind, words = INEXPRESSIBLE[name]
    namespace = {"__annotations__": {"field": kind}, "__module__": __name__, "__doc__": "A model."}
    model = type("Sample", (Model,), namespace)
    with pytest.raises(SchemaError, match=words):
        structural(model)


def test_a_field_without_description_raises() -> None:
    class Silent(Model):
        """A model."""

        flag: Flag = True

    with pytest.raises(SchemaError, match=r"Silent\.flag: a field needs a description"):
        structural(Silent)


def test_an_object_that_takes_anything_raises() -> None:
    class Open(Model):
        """A model."""

        model_config = ConfigDict(extra="allow")
        flag: Flag = True
        """A flag."""

    with pytest.raises(SchemaError, match="cannot be expressed"):
        structural(Open)
