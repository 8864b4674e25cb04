"""Where the first attempt of a job starts: a word, an address, or some parts of a checkpoint at an address."""

from typing import Annotated, Any, Final

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidatorFunctionWrapHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from holdfast.api.errors import ScalarError
from holdfast.api.model import Model
from holdfast.api.strings import RESUME, CheckpointAddress, ObjectOfRun

_WORDS: Final = "must be Auto, Never, a checkpoint's address, or an object with the fields from and only"
_NO_STRING: Final = {"minLength": RESUME.longest + 1}  # true of everything but a valid string
_NO_OBJECT: Final = {"minProperties": 3}  # true of everything but a valid object


class WarmStart(Model):
    """Training starts at step 0, with some objects of another job's checkpoint."""

    source: Annotated[CheckpointAddress, Field(alias="from")]
    """Address of a checkpoint, or of the prefix of another job, such as s3://bucket/prefix."""
    only: Annotated[tuple[ObjectOfRun, ...], Field(min_length=1, max_length=16)]
    """Names of the objects to restore, as the program gives them to its Run, such as model."""


class _Choice:
    """Marks a field that is a string or a WarmStart."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def validate(value: Any, parts: ValidatorFunctionWrapHandler) -> Any:
            if isinstance(value, WarmStart) or (isinstance(value, dict) and value.keys() <= {"from", "only", "source"}):
                return parts(value)
            if isinstance(value, str):
                return RESUME.check(value)
            raise ScalarError(value, _WORDS)

        def plain(value: str | WarmStart) -> Any:
            return value if isinstance(value, str) else {"from": value.source, "only": list(value.only)}

        return core_schema.no_info_wrap_validator_function(
            validate,
            handler.generate_schema(WarmStart),
            serialization=core_schema.plain_serializer_function_ser_schema(plain),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The API server checks strings by the one half, and objects by the other. `oneOf` refuses all other types."""
        parts = handler.resolve_ref_schema(handler(schema["schema"]))
        return {
            "x-kubernetes-preserve-unknown-fields": True,
            **RESUME.fragment(),
            "properties": parts["properties"],
            "required": parts["required"],
            "maxProperties": len(parts["properties"]),
            "oneOf": [_NO_STRING, _NO_OBJECT],
        }


Resume = Annotated[str | WarmStart, _Choice()]
