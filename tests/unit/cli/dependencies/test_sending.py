"""Packages of a folder, with the real uv and an index on this machine: locked, unpacked, sent, put into a pod."""

import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from tests.support.trainer.code import write_tree
from tests.support.wheels import make_wheel, use_index

from holdfast_cli.dependencies.locked import for_image
from holdfast_cli.dependencies.sending import prepare, send
from holdfast_cli.dependencies.unpacked import Unpacked
from holdfast_cli.errors import CliError
from holdfast_protocol.dependencies import LIST_FILE, Need
from holdfast_train.code.store import fetch_dependencies, key_of
from holdfast_train.code.store import send as send_folder
from holdfast_train.code.tree import tree_hash
from holdfast_train.errors import CodeInvalidError, CodeMissingError, StorageUnreachableError
from holdfast_train.storage.folder import FolderStorage

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with a library that needs another one and torch, and has a command."""
    index = tmp_path / "index"
    use_index(index, tmp_path / "cache", monkeypatch)
    make_wheel(index, "shapes", "1.0", {"shapes.py": "SIDES = 4\n"})
    make_wheel(index, "shapes", "1.1", {"shapes.py": "SIDES = 5\n"})
    make_wheel(
        index,
        "trainkit",
        "2.0",
        {"trainkit/__init__.py": "import shapes\ndef run():\n    print('sides', shapes.SIDES)\n", "data.txt": "x"},
        requires=["shapes<1.1", "torch>=2.0", "torchvision; extra == 'images'", "pywin; sys_platform == 'win32'"],
        commands={"trainkit-run": "trainkit:run"},
    )
    return index


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of a program that needs it."""
    (tmp_path / "program").mkdir()
    (tmp_path / "program/requirements.txt").write_text("trainkit\ntorch==2.9.1\n")
    return tmp_path / "program"


def prepared(
    root: Path,
    file: str | None = None,
    *,
    python: str | None = None,
    platform: str | None = None,
    provided: Sequence[str] | None = None,
    upgrade: bool = False,
) -> tuple[Unpacked, str]:
    said = io.StringIO()
    image = for_image(python, platform, provided)
    found = prepare(root, file, image, Console(file=said, width=200), upgrade=upgrade)
    assert found is not None
    return found, said.getvalue()


def versions(found: Unpacked) -> dict[str, str]:
    return {one.name: one.version for one in found.listed.packages}


# Breaks if packages of the image are replaced, if one is missing, or if the person is not told what is sent.
def test_what_is_locked(index: Path, root: Path) -> None:
    found, said = prepared(root)
    assert versions(found) == {"shapes": "1.0", "trainkit": "2.0"}
    listed = found.listed
    assert listed.python == HERE
    assert listed.provided == (Need("torch==2.9.1", "requirements.txt"), Need("torch>=2.0", "trainkit"))
    assert "2 packages of requirements.txt" in said
    assert f"for Python {HERE} on x86_64-manylinux_2_28" in said
    assert "of the image: torch==2.9.1, torch>=2.0" in said


# Breaks if what the image must have is that of an earlier run.
def test_another_version_of_the_image(index: Path, root: Path) -> None:
    prepared(root)
    (root / "requirements.txt").write_text("trainkit\ntorch<2\n")
    assert Need("torch<2", "requirements.txt") in prepared(root)[0].listed.provided


# Breaks if versions change between two runs of the same folder, or cannot be changed.
def test_versions_stay_until_they_are_upgraded(index: Path, root: Path) -> None:
    (root / "requirements.txt").write_text("shapes\n")
    first, _ = prepared(root)
    assert versions(first)["shapes"] == "1.1"
    make_wheel(index, "shapes", "2.0", {"shapes.py": "SIDES = 6\n"})
    assert prepared(root)[0].sha256 == first.sha256
    later, _ = prepared(root, upgrade=True)
    assert versions(later)["shapes"] == "2.0"
    assert prepared(root)[0].sha256 == later.sha256
    (root / "requirements.txt").write_text("shapes<2\n")
    assert prepared(root)[0].sha256 == first.sha256


# Breaks if the hash depends on the machine: then another person's run of the same folder is another program.
def test_the_same_on_every_machine(index: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = prepared(root)
    moved = shutil.copytree(root, tmp_path / "another place")
    for name in ("HOLDFAST_CACHE", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "another cache" / name))
    second, _ = prepared(moved)
    assert first.root != second.root
    assert (first.sha256, first.packages()) == (second.sha256, second.packages())


# Breaks if packages do not arrive as they are here, if their commands name this machine, or if something is sent twice.
def test_from_here_into_a_pod(index: Path, root: Path, tmp_path: Path) -> None:
    storage, pod = FolderStorage(str(tmp_path / "store")), tmp_path / "pod"
    found, _ = prepared(root)
    quiet = Console(file=io.StringIO())
    assert send(storage, found, quiet) > 0
    assert send(storage, found, quiet) == 0
    keys = set(storage.keys("code/"))
    pod.mkdir()
    fetch_dependencies(storage, found.sha256, pod)
    assert (pod / LIST_FILE).read_bytes() == found.content
    there = {str(path.relative_to(pod)) for path in pod.rglob("*") if path.is_file()} - {LIST_FILE}
    assert there == {entry.path for _, files in found.packages() for entry in files}
    path = os.pathsep.join([str(pod / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["trainkit-run"], env={"PATH": path, "PYTHONPATH": str(pod)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "sides 4\n"
    assert str(tmp_path) not in (pod / "bin/trainkit-run").read_text()

    make_wheel(index, "shapes", "1.0.1", {"shapes.py": "SIDES = 7\n"})
    changed, _ = prepared(root, upgrade=True)
    send(storage, changed, quiet)
    assert len(set(storage.keys("code/")) - keys) == 2, "the package that changed, and the list"


# Breaks if two commands at once disturb each other, or if others can read passwords of indexes.
def test_two_commands_at_once(index: Path, root: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = {one.sha256 for one, _ in pool.map(lambda _: prepared(root), range(4))}
    assert len(found) == 1
    assert stat.S_IMODE((tmp_path / "cache/holdfast/dependencies").stat().st_mode) == 0o700


# Breaks if each job of a person uploads the same packages, or if a note of what is gone is believed.
def test_another_job_of_the_same_person(index: Path, root: Path, tmp_path: Path) -> None:
    first, second, third = (FolderStorage(str(tmp_path / f"store/{name}")) for name in ("one", "two", "three"))
    found, _ = prepared(root)
    (tmp_path / "store").mkdir()
    quiet = Console(file=io.StringIO())
    assert send(first, found, quiet) > len(found.content)
    assert send(second, found, quiet) == len(found.content), "only the list"
    second.delete([key_of(found.listed.packages[0].sha256)])
    assert send(third, found, quiet) > len(found.content)
    for storage in (first, third):
        (tmp_path / "pod").mkdir(exist_ok=True)
        fetch_dependencies(storage, found.sha256, tmp_path / "pod")


# Breaks if a pod starts with half of its packages, or with others than the job names.
def test_what_is_not_whole(index: Path, root: Path, tmp_path: Path) -> None:
    storage, pod = FolderStorage(str(tmp_path / "store")), tmp_path / "pod"
    pod.mkdir()
    found, _ = prepared(root)
    with pytest.raises(CodeMissingError, match=r"has no code/[0-9a-f]{64}\.json"):
        fetch_dependencies(storage, found.sha256, pod)
    send(storage, found, Console(file=io.StringIO()))
    last = found.listed.packages[-1]
    content = storage.get(key_of(last.sha256))
    storage.delete([key_of(last.sha256)])
    with pytest.raises(CodeMissingError, match=rf"has no code/{last.sha256}\.tar\.gz"):
        fetch_dependencies(storage, found.sha256, pod)
    other = write_tree(tmp_path / "other", {"other.py": "1"})
    send_folder(storage, tmp_path / "other", other)
    storage.put(key_of(last.sha256), storage.get(key_of(tree_hash(other))))
    with pytest.raises(CodeInvalidError, match="is wanted"):
        fetch_dependencies(storage, found.sha256, pod)
    assert not any(pod.iterdir())
    storage.put(key_of(last.sha256), content)
    storage.put(f"code/{'0' * 64}.json", found.content)
    with pytest.raises(CodeInvalidError, match="is not the list with this hash"):
        fetch_dependencies(storage, "0" * 64, pod)


# Breaks if a person does not learn which package is in the way.
@pytest.mark.parametrize("what", ["not there", "for another Python", "without a wheel"])
def test_packages_that_cannot_be_had(index: Path, root: Path, what: str) -> None:
    name = "absent"
    if what == "for another Python":
        make_wheel(index, name, "1.0", {"absent.py": ""}, tag="cp39-cp39-manylinux_2_17_x86_64")
    if what == "without a wheel":
        with tarfile.open(index / f"{name}-1.0.tar.gz", "w:gz") as sdist:
            (root / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            sdist.add(root / "PKG-INFO", f"{name}-1.0/PKG-INFO")
    (root / "requirements.txt").write_text(f"{name}==1.0\n")
    with pytest.raises(CliError, match=rf"(?s)uv could not choose versions for requirements.txt: .*{name}") as raised:
        prepared(root)
    assert "--deps none" in raised.value.hint


# Breaks if a package that has wheels for other machines alone, or was built here, goes into a pod.
def test_wheels_of_other_machines(index: Path, root: Path) -> None:
    (root / "requirements.txt").write_text("fast\n")
    make_wheel(index, "fast", "1.0", {"fast.py": ""}, tag="cp38-abi3-manylinux_2_17_x86_64")
    assert versions(prepared(root)[0]) == {"fast": "1.0"}
    make_wheel(index, "fast", "1.1", {"fast.py": ""}, tag="cp312-cp312-manylinux_2_17_x86_64")
    found = prepared(root, python="3.12", upgrade=True)[0]
    assert (found.listed.python, versions(found)) == ("3.12", {"fast": "1.1"})
    make_wheel(index, "fast", "1.2", {"fast.py": ""}, tag="py3-none-linux_x86_64")
    with pytest.raises(CliError, match=r"the package fast 1.2 has no wheel for x86_64-manylinux_2_28"):
        prepared(root, upgrade=True)
    with pytest.raises(CliError, match="--platform windows: pods run on Linux"):
        prepared(root, platform="windows")
    with pytest.raises(CliError, match="--provided torch==2 is not the name of a package"):
        prepared(root, provided=["torch==2"])


# Breaks if every Python of a pod, Holdfast's too, imports a package in place of a module of Python.
def test_a_package_that_hides_a_module_of_python(index: Path, root: Path) -> None:
    make_wheel(index, "enum34", "1.0", {"enum/__init__.py": ""})
    (root / "requirements.txt").write_text("enum34\n")
    with pytest.raises(CliError, match="packages would hide these modules of Python: enum"):
        prepared(root)


# Breaks if what an extra needs of the image is not compared, or if what only a constraint names is.
def test_extras_and_constraints(index: Path, root: Path) -> None:
    requires = [
        "torch>=9; extra == 'gpu'",
        "shapes",
        "torch>dev; extra == 'old'",
    ]  # the last one is no requirement today
    make_wheel(index, "withextra", "1.0", {"withextra.py": ""}, requires=requires)
    (root / "constraints.txt").write_text("torchvision==5\nshapes<1.1\n")
    (root / "requirements.txt").write_text("withextra[gpu]\n-c constraints.txt\n")
    found, _ = prepared(root)
    assert found.listed.provided == (Need("torch>=9", "withextra"),)
    assert versions(found)["shapes"] == "1.0"
    (root / "requirements.txt").write_text("withextra\n")
    assert prepared(root)[0].listed.provided == ()


# Breaks if packages that the image does not have cannot be sent, or if others cannot be taken from it.
def test_what_is_of_the_image(index: Path, root: Path) -> None:
    make_wheel(index, "torch", "2.9.1", {"torch.py": ""})
    assert versions(prepared(root, provided=["shapes"])[0]) == {
        "torch": "2.9.1",
        "trainkit": "2.0",
    }


# Breaks if two packages that have the same file cannot be unpacked together.
def test_two_packages_have_one_file(index: Path, root: Path, tmp_path: Path) -> None:
    make_wheel(index, "one", "1.0", {"tests/__init__.py": "", "one.py": ""})
    make_wheel(index, "two", "1.0", {"tests/__init__.py": "", "two.py": ""})
    (root / "requirements.txt").write_text("one\ntwo\n")
    found, _ = prepared(root)
    storage = FolderStorage(str(tmp_path / "store"))
    send(storage, found, Console(file=io.StringIO()))
    (tmp_path / "pod").mkdir()
    fetch_dependencies(storage, found.sha256, tmp_path / "pod")
    assert {path.name for path in (tmp_path / "pod").iterdir()} >= {"tests", "one.py", "two.py"}


def test_uv_is_missing(index: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("holdfast_cli.dependencies.uv.find_spec", lambda _name: None)
    with pytest.raises(CliError, match="uv, which locks and packs them, is not installed") as raised:
        prepared(root)
    assert "pip install uv" in raised.value.hint


# Breaks if what uv has locked is not what is sent.
def test_a_lock_of_uv(index: Path, root: Path) -> None:
    make_wheel(index, "torch", "2.9.1", {"torch.py": ""}, requires=["heavy"])
    make_wheel(index, "heavy", "1.0", {"heavy.py": ""})
    make_wheel(index, "pytool", "1.0", {"pytool.py": ""})
    make_wheel(index, "pywin", "1.0", {"pywin.py": ""})
    (root / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["trainkit", "torch"]\n'
        '[dependency-groups]\ndev = ["pytool"]\n'
    )
    subprocess.run([sys.executable, "-m", "uv", "lock", "-q"], cwd=root, check=True)
    make_wheel(index, "shapes", "1.0.5", {"shapes.py": "SIDES = 8\n"})
    found, said = prepared(root)
    assert versions(found) == {"shapes": "1.0", "trainkit": "2.0"}
    assert found.listed.provided == (Need("torch>=2.0", "trainkit"), Need("torch==2.9.1", "uv.lock"))
    assert "2 packages of uv.lock" in said


# Breaks if a package that was edited in the cache, or is gone from the storage, ends in a pod without it.
def test_what_is_not_as_it_was(index: Path, root: Path, tmp_path: Path) -> None:
    storage, quiet = FolderStorage(str(tmp_path / "store")), Console(file=io.StringIO())
    found, _ = prepared(root)
    send(storage, found, quiet)
    storage.delete([key_of(found.listed.packages[0].sha256)])
    assert send(storage, found, quiet) > 0
    (found.root / "shapes.py").write_text("SIDES = 9\n")
    with pytest.raises(CliError, match="files of shapes were changed in") as raised:
        send(FolderStorage(str(tmp_path / "other")), found, quiet)
    assert "run the command again" in raised.value.hint
    again, _ = prepared(root)
    assert (again.sha256, (again.root / "shapes.py").read_text()) == (found.sha256, "SIDES = 4\n")


# Breaks if a list is there before its packages are: a pod would start without them.
def test_an_upload_that_is_interrupted(index: Path, root: Path, tmp_path: Path) -> None:
    class Dying(FolderStorage):
        def write(self, key: str, data: memoryview, **_more: object) -> None:
            if len(self.keys("code/")) == 1:
                raise StorageUnreachableError("no answer")
            super().write(key, data)

    found, _ = prepared(root)
    with pytest.raises(StorageUnreachableError):
        send(Dying(str(tmp_path / "store")), found, Console(file=io.StringIO()))
    storage = FolderStorage(str(tmp_path / "store"))
    assert [key.rpartition(".")[2] for key in storage.keys("code/")] == ["gz"]


# Breaks if a run uses other versions than a person thinks, or packages that cannot work in a pod.
@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ("-e ./lib", "-e ./lib is a project of this machine, and not a wheel"),
        ("./lib", "is a project of this machine, and not a wheel"),
    ],
)
def test_projects_of_this_machine(index: Path, root: Path, requirement: str, words: str) -> None:
    (root / "lib").mkdir()
    (root / "lib/pyproject.toml").write_text('[project]\nname = "lib"\nversion = "1"\n')
    (root / "requirements.txt").write_text(f"{requirement}\n")
    with pytest.raises(CliError, match=words):
        prepared(root)


# Breaks if a wheel or a folder of wheels beside the program cannot be named by its path.
def test_wheels_of_the_folder(index: Path, root: Path) -> None:
    make_wheel(root / "wheels", "local_one", "1.0", {"local_one.py": ""})
    make_wheel(root / "more", "local_two", "1.0", {"local_two.py": ""})
    (root / "requirements.txt").write_text(
        "--find-links more\n./wheels/local_one-1.0-py3-none-any.whl\nlocal-two\nshapes\n"
    )
    assert versions(prepared(root)[0]) == {"local-one": "1.0", "local-two": "1.0", "shapes": "1.1"}


def test_a_lock_that_does_not_fit(index: Path, root: Path) -> None:
    make_wheel(index, "pywin", "1.0", {"pywin.py": ""})
    make_wheel(index, "torch", "2.9.1", {"torch.py": ""})
    make_wheel(index, "torchvision", "0.1", {"torchvision.py": ""})
    project = '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["shapes"{}]\n'
    (root / "pyproject.toml").write_text(project.format(""))
    subprocess.run([sys.executable, "-m", "uv", "lock", "-q"], cwd=root, check=True)
    with pytest.raises(CliError, match=r"uv.lock is for Python >=3.11, and the image has 3.10"):
        prepared(root, python="3.10")
    with pytest.raises(CliError, match=r"uv\.lock has the versions") as raised:
        prepared(root, upgrade=True)
    assert "uv lock --upgrade" in raised.value.hint
    (root / "pyproject.toml").write_text(project.format(', "trainkit"'))
    with pytest.raises(CliError, match=r"(?s)uv could not read .*uv.lock: .*--locked"):
        prepared(root)


# Breaks if nothing says that a folder has dependencies which are not sent.
def test_dependencies_that_only_a_build_knows(index: Path, root: Path) -> None:
    (root / "requirements.txt").unlink()
    (root / "pyproject.toml").write_text('[project]\nname = "p"\ndynamic = ["dependencies"]\n')
    (root / "setup.py").touch()
    said = io.StringIO()
    assert prepare(root, None, for_image(None, None, None), Console(file=said, width=200)) is None
    assert "no packages are sent: pyproject.toml, setup.py are not read for them" in said.getvalue()
    with pytest.raises(CliError, match=r"setup.py cannot be read for packages; allowed: uv.lock"):
        prepared(root, file="setup.py")


# Breaks if a command of a package that is written in another way than most names the Python of this machine.
def test_commands_of_all_kinds(index: Path, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripts = {
        "odd-1.0.data/scripts/odd-text": "#!python\nprint('odd')\n",
        "odd-1.0.data/scripts/odd-shell": "#!/bin/sh\necho shell\n",
    }
    make_wheel(index, "odd", "1.0", {"odd.py": "def run(): print('run')\n", **scripts}, commands={"odd-run": "odd:run"})
    (root / "requirements.txt").write_text("odd\n")
    long = tmp_path / "a folder" / ("x" * 120)
    long.mkdir(parents=True)
    (long / "python").symlink_to(sys.executable)
    plain, _ = prepared(root)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr("holdfast_cli.dependencies.locked.sys", SimpleNamespace(executable=str(long / "python")))
    other, _ = prepared(root, python=HERE)
    assert plain.sha256 == other.sha256
    for name, shown in (("odd-text", "odd"), ("odd-shell", "shell"), ("odd-run", "run")):
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(other.root)}
        assert subprocess.check_output([other.root / "bin" / name], env=env, text=True) == f"{shown}\n"
