"""The wheels of all distributions: what each contains, and that each works without those that it does not need."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from scripts.setup import PROJECTS

NEVER = ("torch", "numpy", "onnx", "onnxruntime", "filelock", "psutil", "matplotlib", "holdfast_local")
IMPORT_ALL = (
    "import importlib, pkgutil, holdfast_cli\n"
    "names = [one.name for one in pkgutil.walk_packages(holdfast_cli.__path__, 'holdfast_cli.')]\n"
    "for name in names: importlib.import_module(name)\n"
    "print(len(names))\n"
)


def project(folder: Path) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution by its name. Nothing is fetched: the build backend is installed."""
    made = tmp_path_factory.mktemp("dist")
    return {
        project(folder)["name"]: Path(next(WheelBuilder(str(folder)).build(directory=str(made), versions=["standard"])))
        for folder in PROJECTS
    }


class Place:
    """A folder with these wheels, and the libraries of this environment without any distribution of Holdfast."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self._site, libraries = folder / "site", folder / "libraries"
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(self._site)
        libraries.mkdir()
        for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if "holdfast" not in path.name:
                (libraries / path.name).symlink_to(path)
        self._path = f"{self._site}{os.pathsep}{libraries}"

    def run(self, program: str, *arguments: str, without: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        """Run a program, with modules that cannot be imported. -S: no .pth file leads to this checkout."""
        program = f"import sys; sys.modules.update(dict.fromkeys({without!r}))\n{program}"
        return subprocess.run(
            [sys.executable, "-S", "-P", "-c", program, *arguments],
            env={**os.environ, "PYTHONPATH": self._path}, cwd=self._site,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def command(self, name: str, *arguments: str, without: tuple[str, ...] = ()) -> tuple[int, str]:
        """The exit code and all output of an installed program."""
        start = f"from importlib.metadata import entry_points; sys.argv[0] = {name!r}\n"
        start += f"(found,) = entry_points(group='console_scripts', name={name!r}); sys.exit(found.load()())"
        done = self.run(start, *arguments, without=without)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def laptop(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """What `pip install holdfast-cli` brings."""
    return Place(tmp_path_factory.mktemp("laptop"), [wheels[name] for name in needed("holdfast-cli", wheels)])


def requirements(wheel: Path) -> set[str]:
    """Names of the distributions that it requires without an extra."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    return {re.split(r"[^\w.-]", line)[0] for line in lines if "extra ==" not in line}


def needed(name: str, wheels: dict[str, Path]) -> set[str]:
    """The distributions of this repository that the installation of one brings."""
    found = {name}
    for one in requirements(wheels[name]) & wheels.keys():
        found |= needed(one, wheels)
    return found


# Breaks if a wheel lacks a file of its package, such as a style sheet, or contains tests or another package.
@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: project(folder)["name"])
def test_a_wheel_contains_its_package_alone(wheels: dict[str, Path], folder: Path) -> None:
    name = project(folder)["name"]
    place = folder / "operator" if name == "holdfast" else folder
    files = {path.relative_to(place).as_posix() for path in (place / name.replace("-", "_")).rglob("*")
             if path.is_file() and path.suffix != ".pyc"}  # fmt: skip
    with zipfile.ZipFile(wheels[name]) as archive:
        assert {file for file in archive.namelist() if ".dist-info/" not in file} == files


# Breaks if a dependency is added to a distribution that must stay small.
def test_what_an_installation_brings(wheels: dict[str, Path]) -> None:
    bring = {name: needed(name, wheels) - {name} for name in wheels}
    command = {"holdfast", "holdfast-model", "holdfast-protocol", "holdfast-train"}
    assert bring == {
        "holdfast": {"holdfast-protocol"},
        "holdfast-cli": command,
        "holdfast-local": {"holdfast-cli", *command},
        "holdfast-model": {"holdfast-protocol", "holdfast-train"},
        "holdfast-protocol": set(),
        "holdfast-research": {"holdfast-cli", *command},
        "holdfast-train": {"holdfast-protocol"},
    }
    heavy = {"torch", "numpy", "onnx", "onnxruntime", "filelock", "psutil", "matplotlib"}
    for name in ("holdfast-cli", *command):
        assert not requirements(wheels[name]) & heavy


# Breaks if a module of the command line imports torch, NumPy, or anything of the local cluster.
def test_the_command_line_imports_without_torch_and_local_cluster(laptop: Place) -> None:
    done = laptop.run(IMPORT_ALL, without=NEVER)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("local", "pip install 'holdfast[local]'"),
        ("demo", "pip install 'holdfast[local]'"),
        ("simulate", "pip install holdfast-research"),
    ],
)
def test_a_command_of_another_distribution_says_what_to_install(laptop: Place, command: str, hint: str) -> None:
    code, said = laptop.command("holdfast", command)
    assert (code, said) == (1, f"error: `holdfast {command}` is not installed\nhint:  {hint}\n")
    assert command in laptop.command("holdfast", "--help", without=NEVER)[1]


def test_the_local_cluster_joins_the_command_line(wheels: dict[str, Path], tmp_path: Path) -> None:
    place = Place(tmp_path, [wheels[name] for name in needed("holdfast-local", wheels)])
    code, said = place.command("holdfast", "local", "status", "--root", str(tmp_path / "none"), without=("torch",))
    assert (code, "has no local cluster" in said) == (1, True), said


def test_the_operator_runs_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    place = Place(tmp_path, [wheels["holdfast"], wheels["holdfast-protocol"]])
    code, said = place.command("holdfast-operator", "run", "--workers", "0", without=("rich", "typer", "boto3"))
    assert (code, said) == (2, 'error: --workers: "0": must be at least 1\n')


# Breaks if the image of a training needs the tools for models, or says nothing where they are missing.
def test_a_training_runs_without_the_tools_for_models(wheels: dict[str, Path], tmp_path: Path) -> None:
    place = Place(tmp_path, [wheels["holdfast-train"], wheels["holdfast-protocol"]])
    program = "import holdfast_train, holdfast_train.examples.vision_transformer, holdfast_train.pod.init_container"
    assert place.run(program).returncode == 0
    code, said = place.command("holdfast-train", "package", "a", "b")
    missing = "it is a command of holdfast-model, which is not installed: pip install holdfast-model"
    assert (code, said) == (1, f"holdfast-train package: {missing}\n")
    assert place.command("holdfast-train", "export", "--help")[0] == 0
    assert "needs holdfast-model" in place.command("holdfast-train", "--help")[1]
