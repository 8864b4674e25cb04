"""The environment of a container: image, envFrom, env with valueFrom, `$(VAR)` expansion."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast_local.agent.container.downward import PodFacts
from holdfast_local.agent.errors import ApiError, EnvError

Object = dict[str, Any]

BASE_PATH = "/usr/local/bin:/usr/bin:/bin"

_REFERENCE = re.compile(r"\$(\$|\([^()]*\))")


class Getter(Protocol):
    """Reads one object by its path; raises ApiError with status 404 where there is none."""

    async def get(self, path: str) -> Object:
        """GET one object."""


def expand(text: str, known: dict[str, str]) -> str:
    """`$(NAME)` becomes the variable's value, `$$` a dollar; a name that is not known stays as it is written."""

    def value(found: re.Match[str]) -> str:
        inner = found.group(1)
        if inner == "$":
            return "$"
        return known.get(inner[1:-1], found.group(0))

    return _REFERENCE.sub(value, text)


@dataclass(frozen=True)
class _Variable:
    """One variable as it is written. `own`: by the pod, in `env` or a ConfigMap, not by the image or a Secret."""

    value: str
    own: bool
    references: bool  # whether `$(NAME)` in it stands for another variable


@dataclass
class Environment:
    """The variables of a container, in the order in which a kubelet sets them; a later one of the same name wins."""

    _written: list[tuple[str, _Variable]] = field(default_factory=list)

    def put(self, name: str, value: str, *, own: bool, references: bool = False) -> None:
        """Set a variable."""
        self._written.append((name, _Variable(value, own, references)))

    def resolve(self, rewrite: Callable[[str], str] = str) -> dict[str, str]:
        """Name -> value. What the pod wrote goes through `rewrite`, before the values of others are put into it.

        So a mount path is never looked for in what an image brings, such as its PYTHONPATH, or in a Secret.
        """
        values: dict[str, str] = {}
        for name, variable in self._written:
            text = rewrite(variable.value) if variable.own else variable.value
            values[name] = expand(text, values) if variable.references else text
        return values


class Sources:
    """ConfigMaps and Secrets of one namespace, each read once."""

    def __init__(self, api: Getter, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._read: dict[tuple[str, str], dict[str, bytes] | None] = {}

    async def data(self, kind: str, name: str, *, optional: bool) -> dict[str, bytes]:
        """The content of a `configmap` or `secret`. Raises EnvError where it is missing and not optional."""
        if (kind, name) not in self._read:
            self._read[kind, name] = await self._load(kind, name)
        found = self._read[kind, name]
        if found is None and not optional:
            raise EnvError(f'{kind} "{name}" not found')
        return found or {}

    async def key(self, kind: str, ref: Object) -> bytes | None:
        """One key. None where it is missing and optional; raises EnvError where it is missing and not."""
        optional = bool(ref.get("optional"))
        data = await self.data(kind, ref["name"], optional=optional)
        if ref["key"] in data:
            return data[ref["key"]]
        if optional:
            return None
        proper = {"configmap": "ConfigMap", "secret": "Secret"}[kind]
        raise EnvError(f"couldn't find key {ref['key']} in {proper} {self._namespace}/{ref['name']}")

    async def _load(self, kind: str, name: str) -> dict[str, bytes] | None:
        try:
            found = await self._api.get(f"/api/v1/namespaces/{self._namespace}/{kind}s/{name}")
        except ApiError as err:
            if err.status == 404:
                return None
            raise
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        text = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        binary = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return text | binary


async def build(container: Object, facts: PodFacts, sources: Sources, image_env: dict[str, str]) -> Environment:
    """Every variable of the container, in the order a kubelet sets them. Raises EnvError with the kubelet's message."""
    result = Environment()
    for name, text in image_env.items():
        result.put(name, text, own=False)
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix", "")
        for kind, field_name in (("configmap", "configMapRef"), ("secret", "secretRef")):
            ref = source.get(field_name)
            if ref is None:
                continue
            data = await sources.data(kind, ref["name"], optional=bool(ref.get("optional")))
            for key, value in data.items():
                result.put(prefix + key, value.decode(errors="replace"), own=kind == "configmap")
    for variable in container.get("env") or []:
        await _one(variable, container, facts, sources, result)
    return result


async def _one(variable: Object, container: Object, facts: PodFacts, sources: Sources, result: Environment) -> None:
    name, source = variable["name"], variable.get("valueFrom")
    if source is None:
        result.put(name, variable.get("value", ""), own=True, references=True)
    elif "fieldRef" in source:
        result.put(name, facts.field(source["fieldRef"]["fieldPath"]), own=False)
    elif "resourceFieldRef" in source:
        result.put(name, facts.resource(source["resourceFieldRef"], container), own=False)
    elif "secretKeyRef" in source or "configMapKeyRef" in source:
        kind, ref = ("secret", "secretKeyRef") if "secretKeyRef" in source else ("configmap", "configMapKeyRef")
        value = await sources.key(kind, source[ref])
        if value is not None:
            result.put(name, value.decode(errors="replace"), own=kind == "configmap")
    else:
        raise EnvError(f"env {name}: valueFrom {', '.join(source)} is not supported in the local cluster")
