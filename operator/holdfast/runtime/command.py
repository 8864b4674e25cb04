"""The operator's program: `holdfast-operator`, or `python -m holdfast.runtime`.

Each field of Settings is a flag and a HOLDFAST_* environment variable.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import ValidationError

from holdfast.api.errors import HoldfastError, shown
from holdfast.api.problems import what_is_allowed
from holdfast.runtime import garbage, logs, operator
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import SettingsError
from holdfast.runtime.housekeeping.uninstall import DEADLINE, release_all
from holdfast.runtime.settings import DEFAULT_NAMESPACE, Settings

ABOUT: Final = "Run the operator, or prepare its removal."
ABOUT_RUN: Final = "Run the operator until SIGTERM."
ABOUT_RELEASE: Final = (
    "Remove Holdfast's finalizer from all pods so that they can be deleted, and delete the operator's Lease and Secret."
    " First stop the operator. Many pods are released at once; the exit code is 1 if any is left."
)
ABOUT_NAMESPACE: Final = "Namespace of the operator."
ABOUT_DEADLINE: Final = "For how many seconds to try, at least 1."
RELEASE_DEADLINE: Final = "HOLDFAST_RELEASE_DEADLINE"
NAMESPACE: Final = "HOLDFAST_NAMESPACE"
ABOUT_KUBECONFIG: Final = "Kubeconfig file. Default: the pod's service account."


@dataclass(frozen=True, slots=True)
class Option:
    """One setting on the command line. `default` is None where the default depends on the machine or is absent."""

    name: str
    kind: type
    default: Any
    help: str

    @property
    def flag(self) -> str:
        """`--lease-renew`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """`HOLDFAST_LEASE_RENEW`."""
        return f"HOLDFAST_{self.name.upper()}"

    @property
    def metavar(self) -> str:
        """What help shows for the value."""
        return "NAME=SECONDS" if self.is_repeatable else f"<{self.kind.__name__.lower()}>"

    @property
    def is_repeatable(self) -> bool:
        """True if the flag may be given several times, and the variable holds several values with spaces."""
        return self.name == "patience"


def options() -> tuple[Option, ...]:
    """One option for each field of Settings, in its order."""
    made = []
    for name, field in Settings.model_fields.items():
        types = (field.annotation, *get_args(field.annotation))
        kind = next((kind for kind in (int, float, Path) if kind in types), str)
        default = None if field.default_factory else field.default
        text = field.description or ""
        made.append(Option(name, kind, default, f"{text[:1].upper()}{text[1:]}."))
    return tuple(made)


def settings_from(values: Mapping[str, Any]) -> Settings:
    """Settings from option values; None means not given. Raises SettingsError, which names every wrong option."""
    given = {name: value for name, value in values.items() if value is not None}
    pairs = [pair.partition("=") for pair in given.pop("patience", ())]
    if wrong := next((name for name, equals, _ in pairs if not equals), None):
        raise SettingsError(f"--patience: {shown(wrong)}: must be NAME=SECONDS, for example start_timeout=600")
    patience = {name: seconds for name, _, seconds in pairs}
    try:
        return Settings.model_validate({**given, "patience": patience})
    except ValidationError as error:
        raise SettingsError("; ".join(map(_line, error.errors()))) from error


def _line(problem: Any) -> str:
    text = what_is_allowed(problem)
    if not problem["loc"]:
        return text
    name, *keys = map(str, problem["loc"])
    flag = f"--{name.replace('_', '-')}"
    if not keys and (examples := Settings.model_fields[name].examples):
        text = f"{text}, for example {examples[0]}"
    found = "" if isinstance(problem["input"], dict) else f"{shown(problem['input'])}: "
    return f"{' '.join((flag, *keys))}: {found}{text}"


def run(settings: Settings) -> int:
    """Run the operator until SIGTERM; its exit code."""
    logs.configure(settings.log_level)
    garbage.search_rarely()
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(operator.run(settings))
    finally:
        loop.close()  # asyncio.run would wait for tasks of kopf that never end


def release(kubeconfig: Path | None, namespace: str, deadline: float) -> str:
    """Remove what waits for the operator or is of no use without it; a line for people that says how many pods.

    Raises ReleaseError if something is left after `deadline` seconds.
    """
    if not deadline >= 1:
        raise SettingsError(f"--deadline: at least 1 (second) is allowed; got {deadline:g}")

    async def work() -> int:
        async with await Client.auto(kubeconfig) as client:
            return await release_all(client, namespace, deadline=deadline)

    return f"released {asyncio.run(work())} pods"


def make_parser() -> argparse.ArgumentParser:
    """The command line of `holdfast-operator`."""
    parser = argparse.ArgumentParser(prog="holdfast-operator", description=ABOUT)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,release}")
    running = commands.add_parser("run", help=ABOUT_RUN, description=ABOUT_RUN)
    for option in options():
        shown = f"; default: {option.default}" if option.default is not None and not option.is_repeatable else ""
        running.add_argument(
            option.flag,
            dest=option.name,
            metavar=option.metavar,
            action="append" if option.is_repeatable else "store",
            help=f"{option.help} [env var: {option.variable}{shown}]".replace("%", "%%"),
        )
    releasing = commands.add_parser("release", help=ABOUT_RELEASE, description=ABOUT_RELEASE)
    releasing.add_argument("--kubeconfig", type=Path, metavar="<path>", help=ABOUT_KUBECONFIG)
    releasing.add_argument(
        "--namespace",
        default=os.environ.get(NAMESPACE) or DEFAULT_NAMESPACE,
        metavar="<str>",
        help=f"{ABOUT_NAMESPACE} [env var: {NAMESPACE}; default: {DEFAULT_NAMESPACE}]",
    )
    releasing.add_argument(
        "--deadline",
        type=float,
        default=os.environ.get(RELEASE_DEADLINE) or DEADLINE,
        metavar="<float>",
        help=f"{ABOUT_DEADLINE} [env var: {RELEASE_DEADLINE}; default: {DEADLINE:g}]",
    )
    return parser


def _from_environment(option: Option) -> Any:
    text = os.environ.get(option.variable) or None
    return text.split() if text and option.is_repeatable else text


def main(arguments: Sequence[str] | None = None) -> int:
    """The `holdfast-operator` program; its exit code is as in docs/reference/exit-codes.md."""
    typed = vars(make_parser().parse_args(arguments))
    try:
        if typed.pop("command") == "release":
            sys.stdout.write(f"{release(**typed)}\n")
            return 0
        given = {o.name: typed[o.name] if typed[o.name] is not None else _from_environment(o) for o in options()}
        return run(settings_from(given))
    except HoldfastError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
