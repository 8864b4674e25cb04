"""What files and options say of a run."""

from pathlib import Path

import pytest

from holdfast_cli.errors import CliError
from holdfast_cli.run import options
from holdfast_cli.run.sources import of_folder, of_person, storage_from

NOTHING = (None, None, None)


@pytest.mark.parametrize(("name", "table"), [("holdfast.toml", ""), ("pyproject.toml", "[tool.holdfast]\n")])
def test_a_file_of_the_folder(tmp_path: Path, name: str, table: str) -> None:
    (tmp_path / name).write_text(f'{table}image = "train:1"\nnodes = 2\nenv = {{ SEED = "7" }}\n')
    found = of_folder(tmp_path)
    assert (found.image, found.nodes, found.env) == ("train:1", 2, {"SEED": "7"})


def test_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert not of_folder(tmp_path).model_fields_set
    assert not of_person().model_fields_set


# Breaks if a file of another tool is a traceback.
def test_a_project_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 1\n")
    assert not of_folder(tmp_path).model_fields_set
    (tmp_path / "pyproject.toml").write_text('[tool]\nholdfast = "gpus"\n')
    with pytest.raises(CliError, match="must be a table"):
        of_folder(tmp_path)


def test_the_file_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "config.toml").write_text(
        'profile = "gpus"\n[storage.s3]\nbucket = "runs"\nprefix = "me"\n'
    )
    found = of_person()
    assert found.profile == "gpus"
    assert found.storage is not None
    assert found.storage.s3 is not None
    assert found.storage.s3.prefix == "me"


# Breaks if a wrong file is taken in silence, or is reported with a traceback.
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nodes = 0", "nodes: 0: must be at least 1"),
        ('nodes = "2"', "nodes"),
        ("gpu = 8", '"gpu" is not known'),
        ("nodes = ", "cannot be read as TOML"),
        ("env = 3", "env"),
        ('[storage]\ns3 = {bucket = "runs", prefix = "p"}\nvolumeClaim = {name = "c", path = "p"}', "exactly one"),
    ],
)
def test_a_wrong_file(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "holdfast.toml").write_text(content)
    with pytest.raises(CliError) as caught:
        of_folder(tmp_path)
    assert words in str(caught.value)
    assert "holdfast.toml" in str(caught.value)


def test_two_files(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("nodes = 1")
    (tmp_path / "pyproject.toml").write_text("[tool.holdfast]\nnodes = 2")
    with pytest.raises(CliError, match="are both there"):
        of_folder(tmp_path)


def test_options() -> None:
    found = options.wanted(
        {
            "nodes": 2,
            "image": None,
            "env": ["A=b=c", "E="],
            "data": ["s3://sets/year=2026=/data"],
            "storage": ("s3://runs/team/a/", "http://s3.example", "keys"),
        }
    )
    assert found.model_fields_set == {"nodes", "env", "data", "storage"}
    assert found.env == {"A": "b=c", "E": ""}
    assert found.data == {"/data": "s3://sets/year=2026"}
    assert found.storage == storage_from("s3://runs/team/a", "http://s3.example", "keys")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"env": ["A"]}, "must be NAME=VALUE"),
        ({"data": ["s3://sets"]}, "must be FROM=TO"),
        ({"storage": ("runs/team", None, None)}, "must be s3://BUCKET/PREFIX"),
        ({"storage": ("s3://runs", None, None)}, "must be s3://BUCKET/PREFIX"),
        ({"storage": (None, "http://s3", None)}, "need --storage"),
        ({"memory": "many"}, "memory"),
        ({"env": ["1A=b"]}, "the name of an environment variable"),
    ],
)
def test_wrong_options(given: dict[str, object], words: str) -> None:
    with pytest.raises(CliError) as caught:
        options.wanted({"storage": NOTHING, **given})
    assert words in str(caught.value)
