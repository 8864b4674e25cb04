"""In which file a folder names its dependencies."""

from pathlib import Path

import pytest

from holdfast_cli.dependencies.declared import declared
from holdfast_cli.errors import CliError, ExitCode

PROJECT = (
    '[project]\nname = "p"\nversion = "1"\ndependencies = ["einops>=0.7", "torch==2.9.1; sys_platform == \'linux\'"]\n'
)


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)


def named(root: Path, chosen: str | None = None) -> str | None:
    found = declared(root, chosen)
    return None if found is None else found.path.name


# Breaks if packages are sent for a folder that names none, or if a file that only sets up tools counts.
@pytest.mark.parametrize(
    "files",
    [
        {},
        {"pyproject__toml": "[tool.holdfast]\ngpus = 0\n"},
        {"pyproject__toml": '[project]\nname = "p"\ndynamic = ["dependencies"]\n'},
        {"requirements__txt": "# nothing yet\n\n"},
    ],
)
def test_nothing_is_named(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, **files)
    assert declared(tmp_path, None) is None


# Breaks if versions are chosen again although uv has locked them, or if a file that is named is not the one.
def test_which_file_counts(tmp_path: Path) -> None:
    write(tmp_path, requirements__txt="-r more.txt\n", more__txt="einops\n")
    assert named(tmp_path) == "requirements.txt"
    write(tmp_path, pyproject__toml=PROJECT)
    assert named(tmp_path) == "pyproject.toml"
    write(tmp_path, uv__lock="version = 1\n")
    assert named(tmp_path) == "uv.lock"
    assert named(tmp_path, "more.txt") == "more.txt"
    assert named(tmp_path, str(tmp_path / "more.txt")) == "more.txt"
    assert named(tmp_path, "none") is None


# Breaks if a change of a file that another one includes is not seen, or if a circle of files has no end.
def test_files_that_are_included(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    write(
        tmp_path,
        requirements__txt="\ufeff-r\tparts/base.txt  # all\n-c='limits.txt'\n--index-url https://i.example/x\n",
    )
    write(tmp_path / "parts", base__txt="--requirement ../requirements.txt\nnumpy\n")
    write(tmp_path, limits__txt="numpy<3\n")
    found = declared(tmp_path, None)
    assert found is not None
    assert {path.resolve().name for path in found.files} == {"requirements.txt", "base.txt", "limits.txt"}


# Breaks if the first line of a file of Windows does not count.
def test_a_file_of_windows(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes("\ufefftorch==2.9.1\r\nnumpy \\\r\n  <3\r\n".encode())
    found = declared(tmp_path, None)
    assert found is not None
    assert [str(one) for one in found.requirements()] == ["torch==2.9.1", "numpy<3"]


def test_what_is_required_directly(tmp_path: Path) -> None:
    write(
        tmp_path,
        requirements__txt="torch >=2.1, \\\n  <3  # image\n-e ./lib\neinops==0.8 --hash=sha256:ab\n./wheel.whl\n",
        pyproject__toml=PROJECT,
    )
    for file, expected in (
        ("requirements.txt", ["torch<3,>=2.1", "einops==0.8"]),
        ("pyproject.toml", ["einops>=0.7", 'torch==2.9.1; sys_platform == "linux"']),
    ):
        found = declared(tmp_path, file)
        assert found is not None
        assert [str(one) for one in found.requirements()] == expected


# Breaks if a file that is not there, or that is broken, ends in a traceback, or in a run without packages.
def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, requirements__txt="-r gone.txt\n")
    with pytest.raises(CliError, match=r"requirements.txt: gone.txt cannot be read: No such file"):
        declared(tmp_path, None)
    with pytest.raises(CliError, match=r"--deps: .*/other.txt cannot be read"):
        declared(tmp_path, "other.txt")
    write(tmp_path, pyproject__toml="[project\n")
    with pytest.raises(CliError, match=r"pyproject.toml cannot be read as TOML") as raised:
        declared(tmp_path, None)
    assert raised.value.exit_code == ExitCode.USAGE
