"""Ranks on several nodes tell the launcher how they have imported their modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.trainer.stores import variables

from holdfast_train.environment import Environment
from holdfast_train.pod import imported_modules
from holdfast_train.pod.imported_modules import tell_modules
from holdfast_train.pod.launcher.warm.told import read_told

TELLS = """
import os
{code}
from holdfast_train.environment import Environment
from holdfast_train.pod.imported_modules import tell_modules
tell_modules(Environment.read())
"""


def pod_variables(folder: Path | None, nodes: int = 2, local: int = 0) -> dict[str, str]:
    found = variables(None, HOLDFAST_NODES=str(nodes)) | {"LOCAL_RANK": str(local)}
    return found if folder is None else found | {"HOLDFAST_VERDICT_DIR": str(folder)}


def environment(monkeypatch: pytest.MonkeyPatch, folder: Path | None, nodes: int = 2) -> Environment:
    for name, value in pod_variables(folder, nodes).items():
        monkeypatch.setenv(name, value)
    found = Environment.read()
    assert found is not None
    return found


# Breaks if the launcher cannot read the file, if the order of the imports is lost, or if a rank takes another's file.
def test_the_launcher_reads_what_was_imported(tmp_path: Path) -> None:
    code = "import tokenize, json, sys; sys.modules['stub'] = sys.modules['late'] = None"
    command = [sys.executable, "-c", TELLS.format(code=code)]
    with subprocess.Popen(command, env={**os.environ, **pod_variables(tmp_path, local=3)}) as process:
        process.wait(60)
    assert [path.name for path in tmp_path.iterdir()] == ["modules.3"]
    found = read_told(str(tmp_path), 3)
    assert found is not None
    assert found.pid == process.pid
    assert found.hindrance == ""
    assert found.files["holdfast_train.pod.imported_modules"] == imported_modules.__file__
    assert found.files["stub"] == found.files["sys"] == ""
    assert list(found.files).index("tokenize") < list(found.files).index("json")
    assert "holdfast_train.pod.imported_modules" in found.modules


# Breaks if a program that prepares its imports is taken for one that does not, or the other way round.
@pytest.mark.parametrize(
    ("code", "hindrance"),
    [
        ("os.environ['OMP_NUM_THREADS'] = '3'", "changes OMP_NUM_THREADS after"),
        ("del os.environ['KNOWN']", "changes KNOWN after"),
        ("os.environ['KNOWN'] = 'a'", ""),
        ("os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])", "processor cores"),
    ],
)
def test_what_a_program_does_before_its_imports(tmp_path: Path, code: str, hindrance: str) -> None:
    # As of a process that has waited, which differs from a new one by these.
    waited = {"HOLDFAST_SPARE": "3", "PYTHONPATH": f"/hook:{os.environ.get('PYTHONPATH', '/a')}"}
    restored = f"del os.environ['HOLDFAST_SPARE']; os.environ['PYTHONPATH'] = os.environ['PYTHONPATH'][6:]; {code}"
    for more, lines in (({}, code), (waited, restored)):
        env = {**os.environ, "KNOWN": "a", "OMP_NUM_THREADS": "1", **pod_variables(tmp_path), **more}
        subprocess.run([sys.executable, "-c", TELLS.format(code=lines)], env=env, check=True)
        found = read_told(str(tmp_path), 0)
        assert found is not None
        assert hindrance in found.hindrance
        assert bool(found.hindrance) is bool(hindrance)


@pytest.mark.parametrize(("nodes", "has_folder"), [(1, True), (2, False)])
def test_nobody_else_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, has_folder: bool) -> None:
    monkeypatch.chdir(tmp_path)
    tell_modules(environment(monkeypatch, tmp_path if has_folder else None, nodes))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_modules(environment(monkeypatch, tmp_path / "gone"))
    assert "the launcher is not told what this program has imported" in capsys.readouterr().err
