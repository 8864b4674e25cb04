"""The page docs/reference/python.md: the public names of `holdfast`, from their docstrings."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

import holdfast
from holdfast.api.status import TrainingJobStatus

_HEAD: Final = """\
<!-- Generated from operator/cli/holdfast_cli/client by `make crds`. Do not edit. -->
# Python

Run and follow trainings from a program or a notebook: `pip install holdfast-cli`, then `from holdfast import Client`.
It does what the [commands](cli.md) do, with your own rights, and finds the cluster as they do. A first training from a
notebook is [a tutorial](../tutorial/notebook.ipynb).

```py
from holdfast import Client

client = Client()
job = client.run("train.py", "--lr", 3e-4, gpus=8, deadline="3d", budget=50)
job.wait("Running")
for line in job.logs(follow=True):
    print(line)
losses = [row["loss"] for row in job.history()]
```

`Status` is the status of the [API](api.md), with names as in Python: `status.progress.step`, `status.phase_since`. A
job as the last value of a cell of a notebook shows its state, its progress and a curve of its loss. All names
below are imported from `holdfast`. The program inside the training pod imports [`holdfast_train`](run.md) instead.
"""
_ERRORS: Final = """\
## Errors

Every error is a `HoldfastError`: its text is for people, and `exit_code` is the [exit code](exit-codes.md) with which a
command ends for the same reason. A note of the error says what to do. A notebook shows an error without the lines of
libraries that led to it.

| error | meaning |
|---|---|
"""


def text() -> str:
    """The complete page in Markdown."""
    found = {name: getattr(holdfast, name) for name in holdfast.__all__}
    errors = {name: one for name, one in found.items() if issubclass(one, Exception)}
    order = sorted(found.keys() - errors.keys(), key=lambda name: (name != "Client", name != "Job", name))
    parts = [_HEAD, *(_class(name, found[name]) for name in order)]
    parts.append(_ERRORS + "".join(f"| `{name}` | {_line(one)} |\n" for name, one in errors.items()))
    return "\n".join(parts)


def _class(name: str, one: type[Any]) -> str:
    if issubclass(one, Enum):
        listed = ", ".join(f"`{member.value}`" for member in one)
        return f"## {name}\n\n{_doc(one)}\n\n{listed}\n"
    if is_dataclass(one):
        rows = "".join(f"| `{field.name}` | {_about_field(one, field.name)} |\n" for field in fields(one))
        return f"## {name}\n\n{_doc(one)}\n\n| field | meaning |\n|---|---|\n{rows}"
    made = f"`{name}{_signature(one.__init__)}`\n\n" if name == "Client" else ""
    return f"## {name}\n\n{made}{_doc(one)}\n\n" + "\n".join(_members(name.lower(), one))


def _members(name: str, one: type[Any]) -> Iterator[str]:
    """Attributes first, then methods, both in the order of the source."""
    public = {key: value for key, value in vars(one).items() if not key.startswith("_")}
    attributes = {key: value for key, value in public.items() if isinstance(value, property)}
    yield "| attribute | meaning |\n|---|---|\n" + "".join(
        f"| `{name}.{key}` | {_line(value)} |\n" for key, value in attributes.items()
    )
    for key, value in public.items():
        if key not in attributes:
            yield f"### {name}.{key}\n\n`{key}{_signature(value)}`\n\n{_doc(value)}\n"


def _signature(function: Any) -> str:
    """With the types as they are written in the source, without `self`."""
    found = inspect.signature(function)
    kept = [one for one in found.parameters.values() if one.name != "self"]
    if found.return_annotation is None:
        found = found.replace(return_annotation=inspect.Signature.empty)
    shown = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", str(found.replace(parameters=kept)))
    return shown.replace(TrainingJobStatus.__name__, "Status")


def _doc(one: Any) -> str:
    return inspect.getdoc(one) or ""


def _line(one: Any) -> str:
    """The docstring as a cell of a table."""
    return " ".join(_doc(one).split()).replace("|", "\\|")


def _about_field(one: type[Any], name: str) -> str:
    """The text below a field in the source."""
    found = re.search(rf'^    {name}: [^\n]*\n    """(.+?)"""', inspect.getsource(one), re.MULTILINE | re.DOTALL)
    assert found, f"{one.__name__}.{name} is not described"
    return " ".join(found.group(1).split())
