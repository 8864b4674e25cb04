"""Strings of the API with a fixed form: names, paths, images, addresses. Each says in words what is allowed.

The patterns have the same meaning in Python's `re` and in Go's RE2, and must match the complete string.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from holdfast.api.errors import ScalarError
from holdfast.api.rules import Rule, snake_case


@dataclass(frozen=True, slots=True)
class Text:
    """Marks a string: `words` say what it is, `pattern` has no anchors ("" allows any text), lengths in characters."""

    words: str
    longest: int
    pattern: str = ""
    shortest: int = 1

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def check(self, value: object) -> str:
        """`value`, if it is such a string. ScalarError if it is not."""
        length = f"of {self.shortest} to" if self.shortest else "of at most"
        if (
            not isinstance(value, str)
            or not self.shortest <= len(value) <= self.longest
            or not re.fullmatch(self.pattern or r"[\s\S]*", value)
        ):
            raise ScalarError(value, f"must be {self.words}, {length} {self.longest} characters")
        return value

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", **self.fragment()}

    def fragment(self) -> JsonSchemaValue:
        """The bounds of the string, without its type."""
        fragment: JsonSchemaValue = {"maxLength": self.longest}
        if self.shortest:
            fragment["minLength"] = self.shortest
        if self.pattern:
            fragment["pattern"] = f"^{self.pattern}$"
        return fragment


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = rf"{_LABEL}(\.{_LABEL})*"
_WORD: Final = "[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?"
# One part of a path. It may start with one dot: .cache is allowed, and neither . nor .. is.
_PART: Final = r"\.?[A-Za-z0-9_=@+-][A-Za-z0-9_.=@+-]*"
_PARTS: Final = f"{_PART}(/{_PART})*"
_GLOB: Final = r"\.?[A-Za-z0-9_=@+*?\[-][A-Za-z0-9_.=@+*?\[\]!-]*"

AnyText = Annotated[str, Text("text", 4096, shortest=0)]
LongText = Annotated[str, Text("text", 32768, shortest=0)]
Label = Annotated[str, Text("lower-case letters, digits and '-' (a DNS label)", 63, _LABEL)]
ObjectName = Annotated[str, Text("the name of an object: lower-case letters, digits, '-' and '.'", 253, _NAME)]
DataKey = Annotated[
    str, Text("a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.'", 253, "[-._a-zA-Z0-9]+")
]
EnvName = Annotated[str, Text("the name of an environment variable", 256, "[-._a-zA-Z][-._a-zA-Z0-9]*")]
EnvPrefix = Annotated[str, Text("the start of a variable's name", 128, "([-._a-zA-Z][-._a-zA-Z0-9]*)?", shortest=0)]
Image = Annotated[str, Text("a container image without spaces", 512, r"[^\s]+")]
AbsolutePath = Annotated[str, Text("an absolute path without '.', '..' and a slash at its end", 512, f"/({_PARTS})?")]
MountPath = Annotated[str, Text("an absolute path without '.', '..' and a slash at its end, not /", 512, f"/{_PARTS}")]
PathPattern = Annotated[
    str, Text("a relative path such as run-*/step-*, with *, ? and [...] in its parts", 256, f"{_GLOB}(/{_GLOB})*")
]
RelativePath = Annotated[
    str, Text("a path such as vision/vit-faces, without slash at its ends, empty parts, '.' and '..'", 512, _PARTS)
]
Sha256 = Annotated[str, Text("a SHA-256: 64 hexadecimal digits in lower case", 64, "[0-9a-f]{64}", 64)]
Bucket = Annotated[str, Text("the name of an S3 bucket: lower-case letters, digits, '-' and '.'", 63, _NAME, 3)]
_HOST: Final = r"([A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])"
Endpoint = Annotated[
    str,
    Text(
        "an http or https address without user, password and query",
        512,
        rf"https?://{_HOST}(:[0-9]{{1,5}})?(/[-._/A-Za-z0-9]*)?",
    ),
]
Proxy = Annotated[
    str,
    Text(
        "the address of an HTTP proxy, such as http://proxy.example:3128, without user, password and path",
        300,
        rf"http://{_HOST}(:[0-9]{{1,5}})?",
    ),
]
PythonVersion = Annotated[str, Text("a version of Python such as 3.11", 8, r"3\.[0-9]{1,2}")]
Region = Annotated[str, Text("the name of a region, such as us-east-1", 63, _LABEL)]
_ADDRESS: Final = f"s3://{_NAME}/{_PARTS}|file:///{_PARTS}"
RESUME: Final = Text("Auto, Never or a checkpoint's address (s3://… or file:///…)", 1024, f"(Auto|Never|{_ADDRESS})")
CheckpointAddress = Annotated[str, Text("a checkpoint's address (s3://… or file:///…)", 1024, f"({_ADDRESS})")]
DataAddress = Annotated[
    str,
    Text("the address of objects, such as s3://bucket/prefix, without slash at its end", 600, f"s3://{_NAME}/{_PARTS}"),
]
ObjectOfRun = Annotated[str, Text("the name of an object of the Run, such as model", 63, "[A-Za-z_][A-Za-z0-9_]*")]
PodField = Annotated[
    str,
    Text(
        "a field of the pod, such as metadata.name, metadata.labels['app'], spec.nodeName or status.podIP",
        300,
        r"(metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']{1,253}'\]"
        r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|podIP)s?)",
    ),
]
ResourceName = Annotated[str, Text("a resource with its domain, such as nvidia.com/gpu", 253, rf"{_NAME}/{_WORD}")]
EndReasonText = Annotated[str, Text("the reason of an end, such as OutOfMemory", 64, "[A-Za-z0-9]+")]
RuleText = Annotated[str, Text("text", 256)]
MetricName = Annotated[
    str,
    Text(
        "the name of a metric: letters, digits, '-', '_', '.' and '/'", 63, "[A-Za-z0-9]([-_./A-Za-z0-9]*[A-Za-z0-9])?"
    ),
]
# Text between placeholders is needed, so that each number has one reading; "{{" and "}}" stand for one brace.
_LETTER: Final = r"([^{}\r\n]|\{\{|\}\})"
_PLACE: Final = r"\{(step|total|loss|grad_norm|epochs?|epoch_from_1|epoch_steps?)\}"
ProgressPattern = Annotated[
    str,
    Text(
        "tqdm, lightning, or a line such as 'step {step}/{total} loss={loss}' with at least one of {step}, {total}, "
        "{loss}, {grad_norm}, {epoch}, {epoch_from_1}, {epochs}, {epoch_step} and {epoch_steps}, text between them, * "
        "for any text, and {{ and }} for braces",
        256,
        f"(tqdm|lightning|{_LETTER}*{_PLACE}({_LETTER}+{_PLACE})*{_LETTER}*)",
    ),
]
LABEL_KEY: Final = f"({_NAME}/)?{_WORD}"
LabelKey = Annotated[str, Text("the key of a label, such as holdfast.dev/tier", 316, LABEL_KEY)]
LabelValue = Annotated[str, Text("the value of a label", 63, f"({_WORD})?", shortest=0)]


def label_rule(path: str, longest: int) -> Rule:
    """The rule that the name at `path` (camelCase, dotted) is a DNS label of at most `longest` characters."""
    form, names = re.compile(_LABEL), [snake_case(part) for part in path.split(".")]

    def name_of(value: Any) -> str:
        for name in names:
            value = getattr(value, name)
        return str(value)

    return Rule(
        allowed=f"{path} must be lower-case letters, digits and '-', of at most {longest} characters",
        cel=f"self.{path}.size() <= {longest} && self.{path}.matches('^{_LABEL}$')",
        is_met=lambda value: len(name_of(value)) <= longest and bool(form.fullmatch(name_of(value))),
        got_cel=f"self.{path}",
        got=name_of,
    )
