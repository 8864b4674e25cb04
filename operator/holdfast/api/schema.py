"""pydantic models -> structural schemas, as CustomResourceDefinitions need them.

Every field must have a description and bounds. A part that a structural schema cannot express raises SchemaError:
nothing is dropped silently.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from holdfast.api.errors import SchemaError
from holdfast.api.model import Model
from holdfast.api.rules import cel_string
from holdfast.api.scalars import format_duration

Schema = dict[str, Any]

_KEPT: Final = frozenset(
    {
        "description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
        "minLength", "minimum", "oneOf", "pattern", "properties", "required", "type", "uniqueItems",
        "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    }
)  # fmt: skip
_UNDERSTOOD: Final = _KEPT | {"$defs", "$ref", "additionalProperties", "anyOf", "const", "default", "exclusiveMaximum",
                              "exclusiveMinimum", "patternProperties", "propertyNames", "title"}  # fmt: skip
_INT32: Final = 2**31 - 1
_EXACT: Final = 2**53  # the API server keeps bounds as floats


def structural(model: type[Model], *, defaults: bool = True) -> Schema:
    """The structural schema of `model`. Without `defaults` the API server sets no default values (a status)."""
    source = model.model_json_schema(by_alias=True, schema_generator=_Generator, mode="validation")
    converter = _Converter(source.get("$defs", {}), defaults)
    return converter.convert(source, model.__name__)


class _Generator(GenerateJsonSchema):
    """pydantic's generator, with defaults written as the API writes them."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


class _Converter:
    """Converts one model; each `$ref` is replaced by its definition."""

    def __init__(self, definitions: Mapping[str, Schema], defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults
        self._open: list[str] = []

    def convert(self, source: Schema, path: str) -> Schema:
        """`source` as a structural schema. Raises SchemaError, which names `path`, if that is not possible."""
        if "$ref" in source:
            return self._inline(source, path)
        if "anyOf" in source:
            return self.convert(_without_null(source, path), path)
        if unknown := sorted(set(source) - _UNDERSTOOD):
            raise SchemaError(f"{path}: a structural schema cannot express {', '.join(unknown)}")
        schema = {name: value for name, value in source.items() if name in _KEPT}
        _exclusive_bounds(source, schema, path)
        if "const" in source:
            schema["enum"] = [source["const"]]
        if any(abs(schema.get(bound, 0)) > _EXACT for bound in ("minimum", "maximum")):
            raise SchemaError(f"{path}: a bound beyond 2^53 would be stored as another number")
        kind = schema.get("type")
        kind = "int-or-string" if "x-kubernetes-int-or-string" in schema else kind
        kind = "string-or-object" if "x-kubernetes-preserve-unknown-fields" in schema else kind
        kinds: Mapping[Any, Callable[[Schema, Schema, str], None]] = {
            "object": self._object,
            "array": self._array,
            "string": _string,
            "integer": _integer,
            "boolean": lambda *_: None,
            "int-or-string": _string,
            "string-or-object": self._object,
        }
        if kind not in kinds:
            raise SchemaError(f"{path}: a structural schema cannot express type {kind}")
        kinds[kind](source, schema, path)
        return schema

    def _inline(self, source: Schema, path: str) -> Schema:
        name = str(source["$ref"]).rpartition("/")[2]
        if name in self._open:
            raise SchemaError(f"{path}: {name} contains itself, which a structural schema cannot express")
        own = {key: value for key, value in source.items() if key != "$ref"}
        self._open.append(name)
        try:
            return self.convert({**self._definitions[name], **own}, path)
        finally:
            self._open.pop()

    def _object(self, source: Schema, schema: Schema, path: str) -> None:
        values = source.get("additionalProperties")
        if "patternProperties" in source:
            values = _keyed_values(source, schema, path)
        if "properties" in source:
            if values not in (None, False):
                raise SchemaError(f"{path}: fields and a map in one object cannot be expressed")
            schema["properties"] = {
                name: self._field(field, f"{path}.{name}") for name, field in source["properties"].items()
            }
        elif isinstance(values, dict):
            if "maxProperties" not in schema:
                raise SchemaError(f"{path}: a map needs maxProperties")
            schema["additionalProperties"] = self.convert(values, f"{path}.*")
        else:
            raise SchemaError(f"{path}: an object needs fields, or a map needs the type of its values")

    def _array(self, source: Schema, schema: Schema, path: str) -> None:
        if "maxItems" not in schema:
            raise SchemaError(f"{path}: a list needs maxItems")
        schema["items"] = self.convert(source["items"], f"{path}[]")
        schema.setdefault("x-kubernetes-list-type", "atomic")
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            if "default" not in schema["items"]["properties"][key]:
                schema["items"]["required"] = sorted({*schema["items"].get("required", ()), key})

    def _field(self, source: Schema, path: str) -> Schema:
        schema = self.convert(source, path)
        if not schema.get("description"):
            raise SchemaError(f"{path}: a field needs a description")
        schema["description"] = " ".join(schema["description"].split())
        default = _without_empty(source.get("default"))
        if self._defaults and default not in (None, [], {}):
            schema["default"] = default
        return schema


def _without_null(source: Schema, path: str) -> Schema:
    choices = [choice for choice in source["anyOf"] if choice != {"type": "null"}]
    if len(choices) != 1:
        raise SchemaError(f"{path}: a choice of {len(choices)} types cannot be expressed")
    own = {key: value for key, value in source.items() if key != "anyOf"}
    return {**choices[0], **own}


def _keyed_values(source: Schema, schema: Schema, path: str) -> Schema:
    """The values of a map whose keys have a pattern. It becomes a rule: structural schemas have none for keys."""
    if len(source["patternProperties"]) != 1 or source.keys() & {"properties", "additionalProperties"}:
        raise SchemaError(f"{path}: a map needs one pattern for its keys, and nothing else")
    ((pattern, values),) = source["patternProperties"].items()
    longest = source.get("propertyNames", {}).get("maxLength")
    if longest is None:
        raise SchemaError(f"{path}: the keys of a map need maxLength")
    good = f"key.size() <= {longest} && key.matches({cel_string(pattern)})"
    allowed = f"every key must match {pattern}, of at most {longest} characters"
    schema["x-kubernetes-validations"] = [
        {
            "rule": f"self.all(key, {good})",
            "message": allowed,
            "messageExpression": f"{cel_string(f'{allowed}; got ')} + self.filter(key, !({good}))[0]",
        }
    ]
    return dict(values)


def _exclusive_bounds(source: Schema, schema: Schema, path: str) -> None:
    for exclusive, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if exclusive in source:
            if source.get("type") != "integer":
                raise SchemaError(f"{path}: {exclusive} cannot be expressed for type {source.get('type')}")
            schema[bound] = source[exclusive] + step


def _string(_: Schema, schema: Schema, path: str) -> None:
    if not schema.keys() & {"maxLength", "enum", "format"}:
        raise SchemaError(f"{path}: a string needs maxLength")


def _integer(_: Schema, schema: Schema, path: str) -> None:
    if not {"minimum", "maximum"} <= schema.keys():
        raise SchemaError(f"{path}: an integer needs a minimum and a maximum")
    schema["format"] = "int32" if schema["maximum"] <= _INT32 else "int64"


def _without_empty(default: Any) -> Any:
    """The complete default: the API server checks it before it sets the defaults of its fields."""
    if not isinstance(default, dict):
        return default
    return {name: value for name, value in default.items() if value not in (None, [], {})}
