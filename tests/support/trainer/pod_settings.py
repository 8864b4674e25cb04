"""The environment of a pod with single variables, and single fields of its settings, as a test wants them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast_protocol import settings, variables
from holdfast_protocol.document import to_text


def pod_variables(environment: Mapping[str, str], /, **changes: Any) -> dict[str, str]:
    """`environment` with `changes`: a name in capitals is a variable, another one is a field of the settings."""
    fields = {name: value for name, value in changes.items() if not name.isupper()}
    found = {**environment, **{name: value for name, value in changes.items() if name.isupper()}}
    if fields:
        found[variables.SETTINGS] = to_text(replace(settings.read(found), **fields))
    return found


def settings_of(container: Mapping[str, Any]) -> settings.Settings:
    """The settings in the manifest of a container."""
    found = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    return settings.read(found)
