"""Lists whose items are identified by one field, so that two appliers can each own one item."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from holdfast.api.errors import ScalarError
from holdfast.api.rules import snake_case


@dataclass(frozen=True, slots=True)
class KeyedBy:
    """Marks a list as a map: no two items have the same `key` (camelCase)."""

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        attribute = snake_case(self.key)

        def validate(items: tuple[Any, ...]) -> tuple[Any, ...]:
            seen: set[Any] = set()
            for item in items:
                value = getattr(item, attribute)
                if value in seen:
                    raise ScalarError(value, f"no two items may have the same {self.key}")
                seen.add(value)
            return items

        return core_schema.no_info_after_validator_function(validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            **handler(schema),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [self.key],
        }
