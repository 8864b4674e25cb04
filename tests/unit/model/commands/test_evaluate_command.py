"""The command `holdfast-train evaluate`: its files, its exit codes, and what it refuses."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support.packages import NOT_NUMBERS, colours, load_here, rows

from holdfast_train.exchange.command import main

BAD = "<b>blue"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for name, colour in (("red", (200, 0, 0)), ("green", (0, 200, 0))):
        (root / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (3, 3), colour if number else (0, 0, 200)).save(root / name / f"{number}.png")
    return root


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command into the folder `out`."""
    load_here(monkeypatch)

    def run(*arguments: object) -> int:
        return main(["evaluate", *map(str, arguments), "-o", str(tmp_path / "out")])

    return run


def test_pictures(
    pictures: Path, tmp_path: Path, evaluate: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(colours(tmp_path / "m"), "--data", pictures) == 0
    said = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    (one,) = said["results"]
    assert (said["samples"], said["ships"]["variant"]) == (24, "onnx")
    assert one["accuracy"] == pytest.approx(22 / 24, abs=1e-5)
    assert [row["recall"] for row in one["classes"]] == [pytest.approx(11 / 12, abs=1e-5)] * 2 + [None]
    assert {row["sample"] for row in one["worst"]} == {"red/0.png", "green/0.png"}
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert "No sample of the data is of: blue. Nothing is known of these classes." in page
    assert page.count("data:image/png;base64,") == 2
    assert "ships" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["evaluation.html", "evaluation.json"]
    assert evaluate(tmp_path / "m", "--data", pictures) == 1
    assert "has an evaluation already" in capsys.readouterr().err


# Breaks if a name of a package, a class or a file reaches the page as HTML.
def test_names_are_escaped(pictures: Path, tmp_path: Path, evaluate: Callable[..., int]) -> None:
    folder = colours(tmp_path / "m")
    document = json.loads((folder / "package.json").read_text())
    document["name"] = document["problem"]["classes"][0] = BAD
    (folder / "package.json").write_text(json.dumps(document))
    (pictures / "red").rename(pictures / BAD)
    (pictures / BAD / "0.png").rename(pictures / BAD / "<i>.png")
    assert evaluate(folder, "--data", pictures, "--max-drop", "0") == 0
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;i&gt;.png" in page


# Breaks if a variant that answers NaN is scored, or if it stops the others.
def test_a_variant_without_a_score_is_named(
    tmp_path: Path, evaluate: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", x=np.eye(3, dtype=np.float32) + 1, labels=np.arange(3))
    folder = rows(tmp_path / "m", onnx=[("Identity", ["x"], "logits")], broken=NOT_NUMBERS)
    assert evaluate(folder, "--data", tmp_path / "x.npz") == 1
    assert "m broken: its output for sample 0 is not a number" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["ships"]["variant"] == "onnx"


def mean_logit(model: Callable[..., dict[str, np.ndarray]], path: str) -> float:  # type: ignore[type-arg]
    """For `--score`."""
    return float(model({"x": np.full((1, 3), len(path), np.float32)})["logits"].mean())


NO_FUNCTION = 1


def test_an_own_score(
    tmp_path: Path, evaluate: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").mkdir()
    monkeypatch.setitem(sys.modules, "score", sys.modules[__name__])
    folder = rows(tmp_path / "m")
    for place, said in (
        ("score", "is not a function; allowed"), ("none_such:x", "there is no module"),
        ("score:none", "has no function 'none'"), ("score:NO_FUNCTION", "has no function 'NO_FUNCTION'"),
    ):  # fmt: skip
        assert evaluate(folder, "--data", tmp_path / "x", "--score", place) == 1
        assert said in capsys.readouterr().err
    assert evaluate(folder, "--data", tmp_path / "x", "--score", "score:mean_logit") == 0
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert found["results"][0]["score:mean_logit"] == len(str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("data", "said"),
    [("none", "--data {}/none does not exist"), ("x.txt", "allowed: a folder, .npz"), ("empty", "has no pictures")],
)
def test_data_that_is_none(
    tmp_path: Path, evaluate: Callable[..., int], capsys: pytest.CaptureFixture[str], data: str, said: str
) -> None:
    (tmp_path / "x.txt").write_text("")
    (tmp_path / "empty").mkdir()
    assert evaluate(colours(tmp_path / "m"), "--data", tmp_path / data) == 1
    assert said.format(tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [["--mean", "1,2"], ["--max-drop", "-1"], ["--max-drop", "x"]])
def test_options_that_are_wrong(tmp_path: Path, evaluate: Callable[..., int], option: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        evaluate(tmp_path, "--data", tmp_path, *option)
    assert caught.value.code == 2


# Breaks if an interrupted evaluation leaves files, or a folder.
def test_an_interrupt_leaves_nothing(
    pictures: Path, tmp_path: Path, evaluate: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast_model.evaluation.scores.ClassScores.add", interrupt)
    assert evaluate(colours(tmp_path / "m"), "--data", pictures) == 130
    assert not (tmp_path / "out").exists()


# Breaks if the command imports torch: a machine that runs ONNX has none.
def test_no_torch_is_needed(pictures: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from holdfast_train.exchange.command import main; sys.exit(main(sys.argv[1:]))"
    )
    folder = colours(tmp_path / "m")
    done = subprocess.run(
        [sys.executable, "-c", code, "evaluate", folder, "--data", pictures, "-o", tmp_path / "out"],
        capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


# Breaks if all forms run for hours before a place is refused that cannot have the evaluation.
def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    folder = str(colours(tmp_path / "m"))
    assert main(["evaluate", folder, "--data", str(tmp_path / "none"), "-o", str(tmp_path / "file" / "out")]) == 1
    assert "Not a directory" in capsys.readouterr().err


# Breaks if names of classes that a stranger wrote fill the page, or end the command with a traceback.
@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ("abc", "is not a list of names"), ([1, 2, 3], "allowed: a list of names"), (["a", "b", "a"], "has 'a' twice"),
        (["a" * 100_000, "b", "c"], "of at most 200 characters"), (["a"], "classes has 1 names"),
    ],
    ids=["text", "numbers", "twice", "long", "few"],
)  # fmt: skip
def test_classes_of_a_stranger(
    pictures: Path, evaluate: Callable[..., int], capsys: pytest.CaptureFixture[str], classes: object, said: str
) -> None:
    folder = colours(pictures.parent / "m")
    document = json.loads((folder / "package.json").read_text())
    document["problem"]["classes"] = classes
    (folder / "package.json").write_text(json.dumps(document))
    assert evaluate(folder, "--data", pictures) == 1
    assert said in capsys.readouterr().err


# Breaks if a disk that is full leaves a page without its figures, or an empty folder.
def test_a_full_disk_leaves_nothing(
    pictures: Path, tmp_path: Path, evaluate: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, text: str) -> None:
        if path.suffix == ".json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_text(text)

    monkeypatch.setattr("holdfast_model.commands.evaluate_command.write_whole", write)
    assert evaluate(colours(tmp_path / "m"), "--data", pictures) == 1
    assert not (tmp_path / "out").exists()
