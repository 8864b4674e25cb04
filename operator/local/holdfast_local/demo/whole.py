"""The demo from end to end: what happens before the training, and after it, by the commands that a user has."""

import importlib.util
import json
import math
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import parse_duration
from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.script import NOTICE
from holdfast_local.demo.shell import Shell
from holdfast_local.demo.stage import NAMESPACE
from holdfast_local.demo.verify import Check

JOB, PROBE, MODEL, NEW, EVALUATION = "job.yaml", "probe.json", "model", "new.npz", "evaluation"
REPORT: Final = "training.html"
PROBLEM: Final = "holdfast_train.examples.vision_transformer:problem"
# Options of the training that say how large the model is: the package needs them too.
SIZES: Final = ("--patch", "--dim", "--layers", "--heads", "--image")
NEEDED: Final = ("numpy", "onnx", "onnxruntime", "onnxscript", "safetensors", "torch")
MORE_NOISE: Final = 2.5  # pictures of the training have 1.5: new data is rarely as clean


def check_packaging() -> None:
    """Raises DemoError if a library is missing with which packages are made and evaluated."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise DemoError(
            f"not installed beside holdfast: {', '.join(missing)}; --package needs them to package the model",
            hint="run `make setup` in a checkout, or pip install 'holdfast-model[package]'",
        )


@dataclass(frozen=True, slots=True)
class Whole:
    """The acts around the training of `manifest`. `shell` runs in the folder that is left for the user."""

    shell: Shell
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.manifest["metadata"]["name"])

    def before(self) -> None:
        """Measure a step, and plan. The manifest lies in the folder then. Raises DemoError."""
        shell = self.shell
        text = yaml.safe_dump(self.manifest, sort_keys=False)
        (shell.folder / JOB).write_text(text, encoding="utf-8")
        self._title("1. Measure: the time of a step, on a node of the first tier")
        tier = str(self.manifest["spec"]["capacity"]["tiers"][0]["name"])
        shell.run("holdfast", "probe", JOB, "--tier", tier, "-o", "json", into=PROBE)
        pace = pace_of((shell.folder / PROBE).read_text(encoding="utf-8"), tier)
        shell.say(Text(f"a step takes {parse_duration(pace) / timedelta(milliseconds=1):.1f} ms on {tier}"))
        self._title("2. Plan: what will it cost, and when is it done, if Spot is lost every three minutes on average?")
        shell.run(*plan_command(self.manifest, pace))

    def begin_training(self) -> None:
        """Apply the job. Raises DemoError."""
        self._title("3. Train: and lose a node on the way")
        self.shell.run("kubectl", "apply", "-f", JOB)

    def after(self, job: TrainingJob) -> list[Check]:
        """Package the model and evaluate it. Return what was checked. Raises DemoError."""
        shell = self.shell
        self._title("4. Package: each form is run in a process of its own; one with wrong outputs is refused")
        code = shell.run(*package_command(self.manifest), may_fail=True)
        document = _read(shell.folder / MODEL / "package.json")
        if document is None:
            raise DemoError(f"no package was made: `holdfast package` ended with exit code {code}")
        self._title("5. Evaluate: on new pictures, which are noisier than those of the training")
        size = [one for one in sizes(self.manifest) if one.startswith("--image")]
        shell.run("python", "-m", "holdfast_train.examples.images", NEW, f"--noise={MORE_NOISE}", *size)
        shell.run("holdfast-train", "evaluate", MODEL, "--data", NEW, "-o", EVALUATION, may_fail=True)
        self._title("6. Keep: the training as one page")
        shell.run("holdfast", "report", self.name, "-n", NAMESPACE, "-o", REPORT)
        return package_checks(job, document, _read(shell.folder / EVALUATION / "evaluation.json"))

    def _title(self, text: str) -> None:
        self.shell.say(Text())
        self.shell.say(Text(text, style="bold"))


def pace_of(answer: str, tier: str) -> str:
    """The time of a step that a probe measured. Raises DemoError if there is none."""
    try:
        return str(json.loads(answer)["paces"][tier])
    except (ValueError, KeyError, TypeError) as error:
        raise DemoError(f"the probe measured no time of a step on {tier}") from error


def plan_command(manifest: dict[str, Any], pace: str) -> list[str]:
    """`holdfast plan` of the job, with what holds in a local cluster: all nodes are this machine, so one pace.

    The deadline is twice the time of all steps, and two minutes. CPU nodes are left out: here they are as fast as the
    others, so that they would win every plan. A cluster that lives for minutes loses its Spot nodes within minutes.
    """
    first, *rest = manifest["spec"]["capacity"]["tiers"]
    others = [tier["name"] for tier in rest if tier["kind"] != "CPU"]
    slow = [tier["name"] for tier in (first, *rest) if tier["kind"] == "CPU"]
    work = manifest["spec"]["goal"]["steps"] * parse_duration(pace)
    minutes = 2 + math.ceil(2 * work / timedelta(minutes=1))
    return [
        *("holdfast", "plan", JOB, "--from-probe", PROBE, "--deadline", f"{minutes}m"),
        *(part for name in others for part in ("--pace", f"{name}={pace}")),
        *(part for name in slow for part in ("--without", name)),
        *("--interruptions", "480/day", "--out", "1m", "--acquire", "1s", "--save", "2s", "--restore", "1s"),
        *("--notice", f"{NOTICE.seconds}s"),
    ]


def package_command(manifest: dict[str, Any]) -> list[str]:
    """`holdfast package` of the job, into the folder MODEL."""
    arguments = [f"--argument={one}" for one in sizes(manifest)]
    name = str(manifest["metadata"]["name"])
    return ["holdfast", "package", name, "-n", NAMESPACE, "--problem", PROBLEM, *arguments, "--to", MODEL]


def sizes(manifest: dict[str, Any]) -> list[str]:
    """The options of the program that say how large its model is, such as --dim=64."""
    return [str(part) for part in manifest["spec"]["trainer"]["command"] if str(part).partition("=")[0] in SIZES]


def package_checks(job: TrainingJob, document: dict[str, Any], evaluation: dict[str, Any] | None) -> list[Check]:
    """What has to be true of the package and of its evaluation."""
    saved = job.status.checkpoint
    origin, variants, failed = document["from"], document["variants"], document.get("failed", {})
    newest = saved is not None and origin["manifest"].rpartition("/")[2] == saved.uri.rpartition("/")[2]
    passed = all((entry["tested"] or {}).get("passed") is True for entry in variants.values())
    found = [
        Check(newest, f"the package is of step {origin['step']:,}, the newest checkpoint"),
        Check(
            bool(variants) and passed,
            f"{len(variants)} forms passed their tests and are in the package; "
            f"{len(failed)} {'was' if len(failed) == 1 else 'were'} refused",
        ),
    ]
    scored = [] if evaluation is None else evaluation["results"]
    ships = None if evaluation is None else evaluation["ships"]
    best = f"; {ships['variant']} ships" if ships else ""
    enough = ships is not None and not evaluation["failed"] if evaluation is not None else False
    found.append(Check(enough, f"{len(scored)} forms have a score on new pictures{best}"))
    return found


def left_behind(folder: Path) -> list[Text]:
    """What the demo leaves, and where."""
    shown = (
        (f"{MODEL}/report.html", "the package: each form with its size, its test and its score"),
        (f"{EVALUATION}/evaluation.html", "the evaluation on new pictures, and which form ships"),
        (REPORT, "the training: its curves, attempts, moves and cost"),
        (MODEL, f'the package itself; in Python: holdfast_model.package.load("{folder / MODEL}")'),
    )
    width = max(len(str(folder / name)) for name, _ in shown)
    lines = [Text(f"  {folder / name!s:<{width}}  {what}") for name, what in shown if (folder / name).exists()]
    return [Text("Left for you, until you remove it:"), *lines]


def _read(file: Path) -> dict[str, Any] | None:
    """A JSON file, None if it does not exist."""
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
