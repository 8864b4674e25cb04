"""The file of the launcher: it runs in images that contain nothing but Python 3.9 or newer."""

import ast
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.trainer.stores import LAUNCHER

import holdfast_protocol
from holdfast_train.pod import launcher
from holdfast_train.pod.launcher_file import HOOK, launcher_file

PACKAGES = {
    "holdfast_launcher": Path(launcher.__file__).parent,
    "holdfast_protocol": Path(holdfast_protocol.__file__).parent,
}
MODULES = {
    f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
    for name, folder in PACKAGES.items()
    for path in folder.rglob("*.py")
}


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


# Breaks if a module is left out, or if it needs anything but the standard library of Python 3.9 and the protocol.
def test_modules_of_the_standard_library_alone_for_python_3_9() -> None:
    archive = zipfile.ZipFile(io.BytesIO(launcher_file()))
    there = {name: archive.read(name) for name in archive.namelist()}
    assert there.keys() == {"__main__.py", "sitecustomize.py"} | MODULES.keys()
    assert there["sitecustomize.py"] == HOOK.read_bytes()
    for name, text in {**MODULES, HOOK.name: HOOK.read_bytes()}.items():
        assert name == HOOK.name or there[name] == text
        tree = ast.parse(text, feature_version=(3, 9))
        roots = {module.split(".")[0] for node in ast.walk(tree) for module in imported(node)}
        assert roots <= {*sys.stdlib_module_names, "torch" if name == HOOK.name else "holdfast_protocol"}, name
        future = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
        assert future or Path(name).name == "__init__.py", name


# Breaks if the file has the time of its creation in it, or needs zlib.
def test_the_same_bytes_each_time_uncompressed() -> None:
    assert launcher_file() == launcher_file() == LAUNCHER.read_bytes()
    entries = zipfile.ZipFile(io.BytesIO(launcher_file())).infolist()
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert {entry.date_time[0] for entry in entries} == {1980}


# Breaks if a module in the user's folder, or on PYTHONPATH, is taken for one of the launcher, or if Holdfast is needed.
def test_modules_of_the_user_are_not_taken_for_those_of_the_launcher(tmp_path: Path) -> None:
    for name in (*PACKAGES, "holdfast_train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a module of the user')")
    for name in (*(Path(name).name for name in MODULES if name.count("/") == 1), "__main__.py"):
        (tmp_path / name).write_text("raise SystemExit('a module of the user')")
    found = subprocess.run(
        [sys.executable, "-S", str(LAUNCHER), "--", sys.executable, "-c", "print('the program')"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "the program\n", "")
