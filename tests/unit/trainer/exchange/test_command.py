"""The command holdfast-train: an export that is imported again, its help, and its errors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.support.trainer.exchange import FORMATS, assert_same, fails, run, save, train, varied_state

import holdfast_train
from holdfast_train.exchange.command import main

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shard", ["5GB", "200B"])
def test_an_imported_export_is_the_same_bit_for_bit(prefix: Path, tmp_path: Path, form: str, shard: str) -> None:
    save(prefix, varied_state(), 7)
    out, back = tmp_path / "out", tmp_path / "back"
    run("export", prefix, out, "--format", form, "--max-shard-size", shard)
    run("import", out, "--to", back, "--step", 9)
    expected = varied_state()
    if form == "torch":  # pickles of NumPy use the machine's byte order
        expected["data"]["order"] = expected["data"]["order"].astype("=i4")
    assert_same(holdfast_train.load(str(back)), expected)


@pytest.mark.parametrize("form", ["safetensors", "dcp"])
def test_name_and_step_are_kept(prefix: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"ema": {"x": torch.ones(2)}, "model": {"x": torch.zeros(2)}}, 7)
    run("export", prefix, tmp_path / "out", "--format", form, "--only", "ema")
    run("import", tmp_path / "out", "--to", tmp_path / "back")
    assert "step 7 from" in capsys.readouterr().out
    assert list(holdfast_train.load(str(tmp_path / "back"))) == ["ema"]
    run("import", tmp_path / "out", "--to", tmp_path / "again", "--name", "model")
    assert list(holdfast_train.load(str(tmp_path / "again"))) == ["model"]


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_names_the_options_of_the_command(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    assert ("formats of files:" in said, "--format" in said) == (True, command == "export")


def test_wrong_arguments(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(prefix)
    said = fails(capsys, "export", prefix, tmp_path / "out", "--only", "modle")
    assert "there is nothing at 'modle'; there is model, optimizer" in said
    assert "contains no checkpoint" in fails(capsys, "export", tmp_path / "none", tmp_path / "out", code=4)
    export, import_ = ["export", "a"], ["import", "a", "--to", "b"]
    for args in ([*export, "s3://b/c"], [*export, "b", "--max-shard-size", "big"], [*import_, "--step", "-1"], []):
        with pytest.raises(SystemExit) as ended:
            main(args)
        assert ended.value.code == 2
    assert "is not a path on this machine" in capsys.readouterr().err


TERMINATED = """
import os, signal, sys, tempfile
from holdfast_model.commands import data_command
from holdfast_train.exchange import command

def work(_options):
    with tempfile.TemporaryDirectory(dir=sys.argv[1], prefix=".half-"):
        os.kill(os.getpid(), signal.SIGTERM)

data_command._data = work
command.main(["data", "x"])
"""


# Breaks if SIGTERM, which a scheduler or a user sends, leaves half a package of gigabytes in a hidden folder.
def test_sigterm_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", TERMINATED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


# Breaks if a reader that has enough, such as head, gets an error or a traceback for it.
def test_a_pipe_that_is_closed(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(b"1")
    program = (
        f"import sys; from holdfast_train.exchange.command import main; sys.exit(main(['data', {str(tmp_path)!r}]))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", program, "data", str(tmp_path)]
    done = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
