"""One look: no link is followed, odd names stay as they are, what stays out is named, and a look is bounded."""

import os
import socket
from pathlib import Path

import pytest

from holdfast_train.folder.look import Rules, TooMuchError, look


def write(root: Path, *paths: str) -> None:
    """Files with one byte."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")


def test_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "outside/secret")
    root = tmp_path / "root"
    odd = os.fsdecode(b'odd \xff\n"name')
    write(root, f"a/{odd}/file", ".holdfast-put-back-1/file", "a/.holdfast-1.new", "a/.nfs0000001", ".hidden")
    (root / "a" / odd / "file").write_text("content")
    (root / ".hidden").chmod(0o640)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "gone").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("socket")
        found = look(root)
    assert set(found.files) == {f"a/{odd}/file", ".hidden", "link", "gone"}
    assert (found.files[f"a/{odd}/file"].size, found.files["link"].link) == (7, str(tmp_path / "outside"))
    assert (found.files[".hidden"].mode, found.files["link"].size, found.files["gone"].link) == (0o640, 0, "nowhere")
    assert found.out == dict.fromkeys(("pipe", "socket"), "a socket, a pipe or a device")
    assert found.outside == {"link"}


@pytest.mark.parametrize(
    ("pattern", "out"),
    [
        ("wandb", {"wandb", "run/wandb"}),
        ("*.log", {"a.log", "run/b.log"}),
        ("run/*/x", {"run/wandb/x", "run/wandb/deep/x"}),
        ("run/wandb", {"run/wandb"}),
        ("WANDB", set()),
        ("[", set()),
    ],
)
def test_what_the_job_leaves_out(tmp_path: Path, pattern: str, out: set[str]) -> None:
    """Breaks if a pattern leaves out more or less than the name or path that it fits, or if a folder is read for it."""
    paths = {"wandb/x", "run/wandb/x", "run/wandb/deep/x", "a.log", "run/b.log", "run/model"}
    write(tmp_path, *paths)
    found = look(tmp_path, Rules(tmp_path, [pattern]))
    assert found.out == dict.fromkeys(out, f"checkpoint.exclude has {pattern!r}")
    assert found.files.keys() == {p for p in paths if not any(p == one or p.startswith(f"{one}/") for one in out)}


def test_caches_stay_out(tmp_path: Path) -> None:
    """Breaks if caches of compilers and hubs are uploaded, or if a variable that names no part of the folder hides it.

    A folder that a variable names by a link, or by a path with a link in it, is the same one.
    """
    root, by_link = tmp_path / "outputs", tmp_path / "link"
    write(root, "a/__pycache__/x", ".cache/x", "hub/x", "b/torch/x", "b/x", "tagged/CACHEDIR.TAG", "tagged/deep/x", "x")
    write(root, "__pycache__.txt", "relative/x")
    by_link.symlink_to(root)
    environment = {
        "HF_HOME": str(root / "hub"),
        "TORCH_HOME": f"{by_link}/b/../b/torch/",
        "XDG_CACHE_HOME": str(root),
        "UV_CACHE_DIR": str(tmp_path),
        "PIP_CACHE_DIR": "relative",
        "NUMBA_CACHE_DIR": "",
        "HOME": str(root / "b"),
    }
    for top in (root, by_link):
        found = look(top, Rules(top, environment=environment))
        assert found.files.keys() == {"b/x", "x", "__pycache__.txt", "relative/x"}
        assert found.out == {
            "a/__pycache__": "a cache, by its name",
            ".cache": "a cache, by its name",
            "hub": "a cache, which HF_HOME names",
            "b/torch": "a cache, which TORCH_HOME names",
            "tagged": "a cache, as its file CACHEDIR.TAG says",
        }


@pytest.mark.parametrize(
    ("link", "seen", "is_outside"),
    [
        ("model", "model", False),
        ("../../x", "../../x", False),
        ("../../../x", "../../../x", True),
        ("/etc/hostname", "/etc/hostname", True),
        ("../..", "../..", False),
        ("../../..", "../../..", True),
        ("ROOT/run/last", "../last", False),
        ("ROOT-2/x", "ROOT-2/x", True),
    ],
)
def test_links(tmp_path: Path, link: str, seen: str, is_outside: bool) -> None:
    """Breaks if a link to a save does not lead to it on another node, or if one that leads out is not named."""
    root = tmp_path / "outputs"
    (root / "run/sub").mkdir(parents=True)
    (root / "run/sub/link").symlink_to(link.replace("ROOT", str(root)))
    found = look(root)
    assert found.files["run/sub/link"].link == seen.replace("ROOT", str(root))
    assert found.outside == ({"run/sub/link"} if is_outside else set())


def test_bounded(tmp_path: Path) -> None:
    write(tmp_path, *(f"many/{number}" for number in range(8)), "a", "b/c", "d")
    assert len(look(tmp_path, most=11).files) == 11
    with pytest.raises(TooMuchError, match="more than 10 files, most of them in 'many'"):
        look(tmp_path, most=10)


# Breaks if the folder lost+found of a volume, which only root can read, hides all files.
def test_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "a").touch()
    scan = os.scandir

    def scandir(path: Path) -> object:  # root can read all, so the refusal is made here
        if str(path).endswith("lost+found"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = look(tmp_path)
    assert set(found.files) == {"a"}
    assert found.out == {"lost+found": "a folder that cannot be read"}


def test_the_folder_itself_must_be_there(tmp_path: Path) -> None:
    """Breaks if a volume that is gone looks like a program that has deleted all its files."""
    with pytest.raises(OSError, match="No such file"):
        look(tmp_path / "outputs")
