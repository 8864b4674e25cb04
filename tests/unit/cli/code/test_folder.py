"""What of a folder `holdfast run` sends."""

import json
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.trainer.code import entries_of, write_tree

from holdfast_cli.code import folder, walk
from holdfast_cli.code.folder import select
from holdfast_cli.code.walk import in_words
from holdfast_cli.errors import CliError, ExitCode
from holdfast_train.code.tree import OF_CODE

PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEpAIBAAKCAQEA' * 4}\n-----END RSA PRIVATE KEY-----\n"
AWS_ID, AWS_SECRET = "AKIA" + "Q2W3E4R5T6Y7U2I3", "aB3/" * 10
KUBECONFIG = "apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    {}\n"


def sent(root: Path, *exclude: str) -> list[str]:
    """The paths that are sent, without ignore files."""
    return [one.path for one in select(root, exclude).entries if not one.path.endswith("ignore")]


def reasons(root: Path) -> dict[str, str]:
    return {one.path: one.why for one in select(root).left_out}


def words(root: Path, *, hint: str = "") -> str:
    """What the command says when it refuses the folder."""
    with pytest.raises(CliError) as error:
        select(root)
    assert hint in error.value.hint
    return str(error.value)


# Breaks if a file of the program is not sent, or its hash is not that of its content.
def test_all_files_with_their_hashes(tmp_path: Path) -> None:
    names = ["train.py", "a b/ä 日本.txt", "-rf", "pkg/data/x.bin", ".hidden", "e\u0301/é", "back\\slash"]
    entries = write_tree(tmp_path, {name: name for name in names} | {"link": "-> pkg/data"})
    (tmp_path / "train.py").chmod(0o755)
    entries = entries_of(tmp_path)
    seen: list[tuple[int, int]] = []
    found = select(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert list(found.entries) == sorted(entries, key=lambda entry: entry.path)
    assert (found.total, found.left_out, seen) == (sum(len(name.encode()) for name in names), (), [(7, 7)])
    assert found.largest[0].path == "a b/ä 日本.txt"


# Breaks if nested files, negation, or the file of one clone are not read as git reads them.
def test_ignore_files_of_git(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            ".gitignore": "*.ckpt\n/runs/\n",
            "sub/.gitignore": "!good.ckpt\nlocal\n",
            ".git/info/exclude": "notes.txt\n",
            ".git/config": "x",
            **dict.fromkeys(["a.ckpt", "sub/good.ckpt", "sub/bad.ckpt", "sub/local", "local", "notes.txt"], "x"),
            **dict.fromkeys(["runs/1/x", "sub/runs/x"], "x"),
        },
    )
    assert sent(tmp_path) == ["local", "sub/good.ckpt", "sub/runs/x"]
    assert reasons(tmp_path)["runs/"] == "in .gitignore"


# Breaks if a subfolder of a repository sends what its repository ignores.
def test_a_folder_inside_of_a_repository(tmp_path: Path) -> None:
    files = {".gitignore": "*.ckpt\n/work/exp/out\nwork/\n", "work/.gitignore": "*.log\n", ".git/info/exclude": "tmp\n"}
    files |= dict.fromkeys(["work/exp/a.ckpt", "work/exp/a.py", "work/exp/b.log", "work/exp/out/x"], "x")
    write_tree(tmp_path, files | {"work/exp/tmp": "x", "work/exp/sub/out/y": "x"})
    assert sent(tmp_path / "work" / "exp") == ["a.py", "sub/out/y"]


# Breaks if a worktree, whose .git is a file, does not read the exclude file of its repository.
def test_a_worktree(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    write_tree(main / ".git", {"info/exclude": "notes\n", "worktrees/tree/commondir": "../..\n"})
    write_tree(tree, {".git": f"gitdir: {main}/.git/worktrees/tree\n", "notes": "x", "a.py": "x"})
    assert sent(tree) == ["a.py"]
    (tree / ".git").write_text("gitdir: /missing\0\n")
    assert sent(tree) == ["a.py", "notes"]


# Breaks if what .gitignore leaves out cannot be sent, such as weights that the program starts from.
def test_own_file_takes_in_again(tmp_path: Path) -> None:
    ignored = "*.bin\ndata/\nnode_modules/\n"
    own = "!keep.bin\n!data/words.txt\n!node_modules/\nsecret-plan.md\n"
    files = {".gitignore": ignored, ".holdfastignore": own, "secret-plan.md": "x", "keep.bin": "x", "drop.bin": "x"}
    files |= dict.fromkeys(["data/words.txt", "data/.env", "data/deep/x", "node_modules/a/b.js", "sub/keep.bin"], "x")
    write_tree(tmp_path, files)
    assert sent(tmp_path) == ["data/words.txt", "keep.bin", "node_modules/a/b.js", "sub/keep.bin"]
    found = reasons(tmp_path)
    assert (found["data/"], found["secret-plan.md"]) == ("in .gitignore", "in .holdfastignore or --exclude")


# Breaks if all that a person has is sent because the command was typed in the wrong place.
def test_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"train.py": "x", "own/train.py": "x"})
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CliError, match=r"all of .* would be sent") as caught:
        select(tmp_path)
    assert "--dir" in caught.value.hint
    assert sent(tmp_path / "own") == ["train.py"]
    (tmp_path / ".holdfastignore").touch()
    assert "train.py" in sent(tmp_path)


# Breaks if the deepest ignore file does not decide, or an option of the command does not count before all files.
def test_the_order_of_ignore_files(tmp_path: Path) -> None:
    write_tree(tmp_path, {".holdfastignore": "*.txt\n", "sub/.holdfastignore": "!a.txt\n", "sub/a.txt": "x", "b": "x"})
    assert sent(tmp_path) == ["b", "sub/a.txt"]
    assert sent(tmp_path, "a.*") == ["b"]
    assert sent(tmp_path, "!*.txt", "b") == ["sub/a.txt"]


# Breaks if a history of gigabytes is sent.
def test_histories_are_never_sent(tmp_path: Path) -> None:
    write_tree(tmp_path, {".holdfastignore": "!.git\n!.hg/x\n!.svn/**\n", "a": "x", "sub/.git": "gitdir: x"})
    write_tree(tmp_path, dict.fromkeys([".git/HEAD", ".hg/x", "sub/.svn/x"], "x"))
    assert sent(tmp_path) == ["a"]


# Breaks if an environment is sent because it has another name than usual.
def test_environments_under_any_name(tmp_path: Path) -> None:
    names = ["my env/pyvenv.cfg", "my env/lib/x.py", "conda/conda-meta/history", "conda/bin/x", "cache/CACHEDIR.TAG"]
    names += ["cache/x", "out/.holdfast-folder.json", "out/step-1/x", "a/__pycache__/x.pyc", "b.pyc", "venv/of-mine.py"]
    names += [".ruff_cache/x", ".mypy_cache/x", ".pytest_cache/x", ".ipynb_checkpoints/x", "ui/node_modules/x/y"]
    write_tree(tmp_path, dict.fromkeys(names, "x") | {"my env/bin/python": "-> /usr/bin/python3"})
    assert sent(tmp_path) == ["venv/of-mine.py"]
    found = reasons(tmp_path)
    assert (found["my env/"], found["out/"]) == ("an environment of Python", "checkpoints that Holdfast keeps")
    write_tree(tmp_path, {".holdfastignore": "!out/\n!b.pyc\n!conda/bin/*\n"})
    assert sent(tmp_path) == [
        "b.pyc", "conda/bin/x", "out/.holdfast-folder.json", "out/step-1/x", "venv/of-mine.py"
    ]  # fmt: skip


SECRETS: dict[str, str] = {
    ".env": "A=1",
    "sub/.env.production": "A=1",
    ".netrc": "x",
    ".pypirc": "x",
    "ca.pem": "x",
    "tls.key": "x",
    "store.p12": "x",
    ".npmrc": "x",
    ".git-credentials": "x",
    "hub.py": f'TOKEN = "hf_{"aB3" * 12}"',
    "forge.sh": f"export TOKEN=ghp_{'a1B2' * 9}",
    "cloud.sh": f"export AWS_SECRET_ACCESS_KEY={AWS_SECRET}",
    "id": f"text\n{PEM}",
    "openssh": PEM.replace("RSA", "OPENSSH"),
    "pkcs8": PEM.replace("RSA ", ""),
    "encrypted": PEM.replace("\nMI", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMI", 1),
    "notes.py": f'KEY = "{AWS_ID}"\nSECRET = "{AWS_SECRET}"\n',
    "aws.ini": f"aws_secret_access_key={AWS_SECRET}\naws_access_key_id={AWS_ID}\n",
    "kube": KUBECONFIG.replace("{}", "client-key-data: TUlJRXBBSUJBQUtDQVFFQQ=="),
    "kube.json": '{"kind": "Config", "users": [{"user": {"token": "eyJhbGciOiJSUzI1NiJ9"}}]}',
    "gcp.json": json.dumps({"type": "service_account", "private_key": PEM}),
}
NO_SECRETS: dict[str, str] = {
    ".env.example": "A=",
    ".env.sample": "A=",
    ".env.template": "A=",
    ".envrc": "layout python",
    "monkey.py": "x",
    "check.py": 'if b"-----BEGIN PRIVATE KEY-----" in head:\n    raise ValueError("a private key was found here")\n',
    "public": PEM.replace("PRIVATE", "PUBLIC"),
    "doc.md": "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "id.txt": AWS_ID,
    "hash.txt": f"{AWS_ID} {'0a' * 20}",
    "kubeconfig": KUBECONFIG,
    "job.yaml": "kind: ConfigMap\ndata:\n  token: abcdefghijkl\n",
}


# Breaks if a password or key goes into a bucket that many people read.
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_not_sent(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {"a": "x", name: SECRETS[name]})
    assert sent(tmp_path) == ["a"]
    assert reasons(tmp_path)[name].startswith(("may have ", "has a"))
    write_tree(tmp_path, {".holdfastignore": f"!{name}\n"})
    assert sent(tmp_path) == sorted(["a", name])


# Breaks if a program misses a file that only looks a little like a secret.
def test_what_is_not_a_secret(tmp_path: Path) -> None:
    write_tree(tmp_path, NO_SECRETS)
    assert sent(tmp_path) == sorted(NO_SECRETS)


# Breaks if a pod gets a link that leads nowhere, or the user is not told which one.
def test_links_out_of_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_tree(root, {"a": "x", "data": "-> /mnt/data", "sub/up": "-> ../../b", "ok": "-> a", "gone": "-> missing"})
    found = words(root, hint="name it in .holdfastignore")
    assert "'data' leads out of the folder: to '/mnt/data'" in found and "'sub/up'" in found and "'ok'" not in found
    write_tree(root, {".holdfastignore": "data\nup\n"})
    assert sent(root) == ["a", "gone", "ok"]


# Breaks if names that no line of text can hold come into messages, or into the hash.
def test_names_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "two\nlines").touch()
    assert r"'two\nlines': a name has control characters" in words(tmp_path, hint="rename it")
    (tmp_path / "two\nlines").unlink()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    assert "is not UTF-8" in words(tmp_path, hint=".holdfastignore")
    write_tree(tmp_path, {".holdfastignore": "?\n", "ab": "x"})
    assert sent(tmp_path) == ["ab"]


# Breaks if pipes and sockets hang the command.
def test_what_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / ".holdfastignore")
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(tmp_path)  # a path to a socket is short
        server.bind("socket")
        os.chdir(before)
        found = reasons(tmp_path)
    assert found == dict.fromkeys([".holdfastignore", "pipe", "socket"], "a pipe, socket or device")


# Breaks if a huge file is read before it is refused, or the user does not learn which one it is.
def test_a_huge_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {f"small-{number}": "x" for number in range(12)})
    os.truncate((tmp_path / "small-0"), 2 << 30)
    monkeypatch.setattr(folder, "_read", lambda *_: pytest.fail("a file was read"))
    found = words(tmp_path, hint=".holdfastignore")
    assert found.startswith(
        "the folder has 2,048.0 MiB; at most 256.0 MiB are allowed. The largest files: small-0 (2,048"
    )
    assert found.count(" MiB)") == 10


# Breaks if a folder of millions of files is walked through to its end.
def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "OF_CODE", replace(OF_CODE, files=20))
    monkeypatch.setattr(folder, "OF_CODE", replace(OF_CODE, files=20))
    write_tree(tmp_path, {f"images/{number % 3}/{number}": "" for number in range(60)} | {"a": ""})
    found = words(tmp_path, hint=".holdfastignore")
    assert "more than 20 files" in found and "images/ (2" in found


# Breaks if the archive has a file as it never was.
def test_a_file_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for change in ("x" * 11, "x" * 9, None):
        write_tree(tmp_path, {"log": "x" * 10})

        def limits(_found: object, change: str | None = change) -> None:
            if change is None:
                (tmp_path / "log").unlink()
            else:
                (tmp_path / "log").write_text(change)

        monkeypatch.setattr(folder, "_check_limits", limits)
        assert words(tmp_path, hint="if the program writes this file") == "'log' changed while it was read"


# Breaks if what cannot be read is passed over, or ends in a traceback.
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"sub/a": "x"})
    for path in ("sub/a", "sub"):
        (tmp_path / path).chmod(0)
        assert f"{tmp_path / path} cannot be read: Permission denied" in words(tmp_path, hint=".holdfastignore")
        (tmp_path / path).chmod(0o700)


def test_errors_of_the_file_system_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"a": "x"})

    def denied(*_arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(folder.os, "open", denied)
        with pytest.raises(CliError, match="a cannot be read: Permission denied") as error:
            select(tmp_path)
    assert error.value.exit_code == ExitCode.FORBIDDEN
    monkeypatch.setattr(walk.os, "scandir", denied)
    with pytest.raises(CliError, match=f"the folder {tmp_path} cannot be read: Permission denied"):
        select(tmp_path)


# Breaks if a wrong place ends in a traceback, or in a job without a program.
def test_places_without_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty" / "below").mkdir(parents=True)
    assert words(tmp_path / "file").endswith("file is not a folder")
    assert words(tmp_path / "missing").endswith("missing does not exist")
    assert "there is no file to send" in words(tmp_path / "empty", hint="!NAME")
    with pytest.raises(CliError, match="line 1"):
        select(tmp_path, ["[z-a]"])
    write_tree(tmp_path, {".holdfastignore": "x\n[z-a]\n"})
    assert ".holdfastignore, line 2: '[z-a]' is not a pattern" in words(tmp_path)


# Breaks if a thousand files that are left out fill the screen.
def test_groups_in_words(tmp_path: Path) -> None:
    write_tree(tmp_path, {".gitignore": "*.log", "a": "x", ".env": "x"} | {f"{number}.log": "" for number in range(8)})
    assert sorted(in_words(select(tmp_path).left_out)) == [
        "not sent (in .gitignore): 0.log, 1.log, 2.log, 3.log, 4.log and 3 more",
        "not sent (may have passwords): .env",
    ]


# Breaks if a folder of usual size takes minutes, because each name is compared with each of a hundred patterns.
def test_a_large_folder_takes_seconds(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("".join(f"*.x{number}\nname{number}/\n" for number in range(50)))
    for place in range(20):
        (tmp_path / f"d{place}").mkdir()
        for number in range(100):
            (tmp_path / f"d{place}" / f"{number}.py").write_bytes(b"x")
    began = time.process_time()
    assert len(select(tmp_path).entries) == 2001
    assert time.process_time() - began < 5
