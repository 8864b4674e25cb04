"""What of a folder is sent."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast_cli.code.folder import Selection, select
from holdfast_cli.code.screen import left_out_lines
from holdfast_cli.errors import CliError

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n"
CLOUD = "[default]\naws_access_key_id = AKIAXXXXXXXXXXXXXXXX\naws_secret_access_key = wJalrXUtnFEMIabcdefgh\n"
ACCOUNT = '{"type": "service_account", "private_key_id": "1", "private_key": "x"}'
KUBECONFIG = "apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: abcdefghijklmnopqrstuvwxyz\n"


def make(root: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


def sent(found: Selection) -> set[str]:
    return {entry.path for entry in found.entries}


def left(found: Selection) -> dict[str, str]:
    return dict(found.left_out)


# Breaks if the rules of git do not count as git has them.
@pytest.mark.parametrize(
    ("files", "exclude", "wanted"),
    [
        ({".gitignore": "*.log\n!keep.log", "a.log": "", "keep.log": "", "b": ""}, (), {".gitignore", "keep.log", "b"}),
        ({".gitignore": "data/", "data/x": "", "deep/data/y": "", "b": ""}, (), {".gitignore", "b"}),
        ({".gitignore": "/data", "data/x": "", "deep/data/y": ""}, (), {".gitignore", "deep/data/y"}),
        ({"a/.gitignore": "x", "a/x": "", "x": "", "a/b/x": ""}, (), {"a/.gitignore", "x"}),
        ({".gitignore": "x", "a/.gitignore": "!x", "a/x": "", "x": ""}, (), {".gitignore", "a/.gitignore", "a/x"}),
        ({".gitignore": "a/", "a/.gitignore": "!x", "a/x": ""}, (), {".gitignore"}),
        ({".gitignore": "x", ".holdfastignore": "!x", "x": ""}, (), {".gitignore", ".holdfastignore", "x"}),
        ({".holdfastignore": "x", "x": "", "b": ""}, (), {".holdfastignore", "b"}),
        ({"x": "", "b": "", "c/x": ""}, ("x",), {"b"}),
        ({".git/config": "", "b": "", "sub/.git": "gitdir: x"}, (), {"b"}),
        ({".git/config": "", "b": ""}, ("!.git",), {"b"}),
        ({".git/info/exclude": "x", "x": "", "b": ""}, (), {"b"}),
        ({"__pycache__/a.pyc": "", "a.pyc": "", "node_modules/x": "", "b": ""}, (), {"b"}),
        ({"node_modules/x": "", ".holdfastignore": "!node_modules/"}, (), {"node_modules/x", ".holdfastignore"}),
        ({"-rf": "", "a b": "", "ü/日本": ""}, (), {"-rf", "a b", "ü/日本"}),
    ],
)
def test_patterns(tmp_path: Path, files: dict[str, str], exclude: tuple[str, ...], wanted: set[str]) -> None:
    assert sent(select(make(tmp_path, files), exclude)) == wanted


# Breaks if gigabytes of a virtual environment are sent because of its name.
@pytest.mark.parametrize("mark", ["pyvenv.cfg", "CACHEDIR.TAG", ".holdfast-folder.json"])
def test_folders_that_say_what_they_are(tmp_path: Path, mark: str) -> None:
    make(tmp_path, {"train.py": "", f"any name/{mark}": "", "any name/lib/x.py": ""})
    found = select(tmp_path)
    assert sent(found) == {"train.py"}
    assert "any name/" in left(found)
    (tmp_path / ".holdfastignore").write_text("!any name/")
    assert "any name/lib/x.py" in sent(select(tmp_path))


# Breaks if a secret leaves the machine.
@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".env", "TOKEN=1"),
        ("deep/.env.production", "TOKEN=1"),
        (".netrc", "machine x"),
        ("notes.txt", f"my key\n{KEY}"),
        ("config", CLOUD),
        ("account.json", ACCOUNT),
        ("k8s.yaml", KUBECONFIG),
    ],
)
def test_secrets_stay_here(tmp_path: Path, path: str, content: str) -> None:
    make(tmp_path, {"train.py": "", path: content})
    found = select(tmp_path)
    assert sent(found) == {"train.py"}
    assert left(found) == {path: "secret"}
    assert f"looks like a secret: {path}" in "".join(left_out_lines(found.left_out))
    (tmp_path / ".holdfastignore").write_text(f"!{path}")
    assert path in sent(select(tmp_path))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".env.example", "TOKEN="),
        ("pem.md", "A key begins with BEGIN PRIVATE KEY."),
        ("job.yaml", "kind: Config\nname: x\n"),
        ("token.yaml", "token: abcdefghijklmnopqrstuvwxyz\n"),
    ],
)
def test_what_is_no_secret(tmp_path: Path, path: str, content: str) -> None:
    assert path in sent(select(make(tmp_path, {path: content})))


def fifo(root: Path) -> None:
    os.mkfifo(root / "pipe")


# Breaks if a pipe blocks the command, or a link is followed.
def test_things_that_are_not_files(tmp_path: Path) -> None:
    make(tmp_path, {"a/train.py": "1"})
    fifo(tmp_path)
    (tmp_path / "l").symlink_to("a")
    (tmp_path / "a" / "up.py").symlink_to("../a/train.py")
    found = select(tmp_path)
    assert sent(found) == {"a/train.py", "a/up.py", "l"}
    assert left(found) == {"pipe": "neither a file nor a link"}


def large(root: Path) -> None:
    with (root / "model.bin").open("wb") as opened:
        opened.truncate(2 << 30)  # a hole: reading it would take seconds


# Breaks if a mistake costs minutes, or its message does not say what to do.
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda root: (root / "l").symlink_to("/etc/passwd"), "the link 'l' leads to '/etc/passwd'"),
        (lambda root: (root / "l").symlink_to("../x"), "leads out of the folder"),
        (large, "model.bin (2.0 GiB)"),
        (lambda root: (root / "a\nb").write_text(""), "cannot be sent"),
        (lambda root: (root / os.fsdecode(b"\xff")).write_text(""), "cannot be sent"),
        (lambda root: (root / "l").symlink_to(os.fsdecode(b"\xff")), "allowed are paths in UTF-8"),
        (lambda root: make(root, {"a/.gitignore": "*.py\n[z-a]\n"}), "a/.gitignore has an invalid pattern: bad char"),
        (lambda root: make(root, {".holdfastignore": "!"}), ".holdfastignore has an invalid pattern"),
        (lambda root: (root / "train.py").unlink(), "no file of"),
        (lambda root: (root / "sub").mkdir() or (root / "train.py").unlink(), "no file of"),
    ],
)
def test_what_is_refused(tmp_path: Path, spoil: Callable[[Path], Any], words: str) -> None:
    make(tmp_path, {"train.py": "1"})
    spoil(tmp_path)
    read = list[int]()
    with pytest.raises(CliError) as caught:
        select(tmp_path, done=read.append)
    assert words in str(caught.value)
    assert caught.value.hint
    assert sum(read) < 100, "nothing large is read"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    make(tmp_path, {"train.py": "1"}).joinpath("train.py").chmod(0)
    with pytest.raises(CliError, match=r"train\.py cannot be read"):
        select(tmp_path)


def test_an_option_that_is_no_pattern(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="--exclude has an invalid pattern"):
        select(make(tmp_path, {"train.py": "1"}), ["!"])


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    make(tmp_path, {"train.py": "1"})
    with pytest.raises(CliError, match="cannot be read"):
        select(tmp_path / "train.py")
