"""The environment of a container: image, envFrom, env with valueFrom, `$(VAR)` expansion."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.local.agent.container.downward import PodFacts
from holdfast.local.agent.errors import ApiError, EnvError

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


@dataclass
class Environment:
    """Variables, and which of them came from a Secret (a secret that looks like a path is never rewritten)."""

    values: dict[str, str] = field(default_factory=dict)
    secret: set[str] = field(default_factory=set)

    def put(self, name: str, value: str, *, secret: bool = False) -> None:
        """Set a variable; a later one of the same name wins."""
        self.values[name] = value
        self.secret.discard(name)
        if secret:
            self.secret.add(name)


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
    result = Environment(values=dict(image_env))
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix", "")
        for kind, field_name in (("configmap", "configMapRef"), ("secret", "secretRef")):
            ref = source.get(field_name)
            if ref is None:
                continue
            data = await sources.data(kind, ref["name"], optional=bool(ref.get("optional")))
            for key, value in data.items():
                result.put(prefix + key, value.decode(errors="replace"), secret=kind == "secret")
    for variable in container.get("env") or []:
        await _one(variable, container, facts, sources, result)
    return result


async def _one(variable: Object, container: Object, facts: PodFacts, sources: Sources, result: Environment) -> None:
    name, source = variable["name"], variable.get("valueFrom")
    if source is None:
        result.put(name, expand(variable.get("value", ""), result.values))
    elif "fieldRef" in source:
        result.put(name, facts.field(source["fieldRef"]["fieldPath"]))
    elif "resourceFieldRef" in source:
        result.put(name, facts.resource(source["resourceFieldRef"], container))
    elif "secretKeyRef" in source or "configMapKeyRef" in source:
        kind, ref = ("secret", "secretKeyRef") if "secretKeyRef" in source else ("configmap", "configMapKeyRef")
        value = await sources.key(kind, source[ref])
        if value is not None:
            result.put(name, value.decode(errors="replace"), secret=kind == "secret")
    else:
        raise EnvError(f"env {name}: valueFrom {', '.join(source)} is not supported in the local cluster")
