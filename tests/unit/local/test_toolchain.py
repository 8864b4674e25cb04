"""A cached tool is always whole, is rebuilt after a change of its inputs, and failures have a message for people."""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.tools.catalogue import BY_NAME
from tests.support.waiting import wait_for

from holdfast_local import toolchain
from holdfast_local.errors import ToolError
from holdfast_local.progress_bar import Silent
from holdfast_local.toolchain import TOOLS, ToolName, build, build_all, cache_key, cached, flags

VERSION = 'if [ "$1" = env ]; then echo go1.99.0; exit; fi\n'
PACKAGES = 'if [ "$1" = list ]; then seq 12; exit; fi\n'
# $OUT is the argument after -o.
OUTPUT = 'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then OUT=$2; fi; shift; done\n'
GOOD = OUTPUT + 'echo whole > "$OUT"\n'
HANGS = OUTPUT + 'printf ha > "$OUT"; echo $$ > "$PID_FILE"; exec sleep 600\n'

FakeGo = Callable[[str], None]


class Fake(NamedTuple):
    go: FakeGo
    cache: Path
    modules: Path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """An empty cache, a copy of the modules, and a `go` whose `build` is the given shell script."""
    cache, modules, bin_dir = tmp_path / "cache", tmp_path / "modules", tmp_path / "bin"
    shutil.copytree(toolchain.MODULES, modules)
    bin_dir.mkdir()
    monkeypatch.setenv("HOLDFAST_CACHE", str(cache))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", f"{bin_dir}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain, "MODULES", modules)

    def go(script: str) -> None:
        (bin_dir / "go").write_text("#!/bin/sh\n" + VERSION + PACKAGES + script)
        (bin_dir / "go").chmod(0o755)

    return Fake(go, cache, modules)


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in (cache / "tools").iterdir() if not path.name.endswith(".lock")]


def test_a_tool_is_built_once_and_then_found(fake: Fake) -> None:
    fake.go(GOOD)
    binary = build(TOOLS["kubernetes"])
    fake.go("exit 1\n")
    assert build(TOOLS["kubernetes"]) == binary
    assert binary.read_text() == "whole\n"
    assert binary.parent.parent == fake.cache / "tools"
    assert {link.name for link in binary.parent.iterdir() if link.is_symlink()} == set(TOOLS["kubernetes"].links)


def test_a_killed_build_leaves_no_tool_and_the_next_one_is_whole(fake: Fake, tmp_path: Path) -> None:
    fake.go(HANGS)
    pid_file = tmp_path / "pid"
    script = "import sys, pathlib; from holdfast_local import toolchain\n"
    script += "toolchain.MODULES = pathlib.Path(sys.argv[1]); toolchain.build(toolchain.TOOLS['versitygw'])"
    builder = subprocess.Popen(
        [sys.executable, "-c", script, fake.modules], env={**os.environ, "PID_FILE": str(pid_file)}
    )
    with builder:
        wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), 30, "the build to write half a tool")
        builder.kill()
    assert not cached(TOOLS["versitygw"]).parent.exists()
    fake.go(GOOD)
    try:
        assert build(TOOLS["versitygw"]).read_text() == "whole\n"
        assert leftovers(fake.cache) == [cached(TOOLS["versitygw"]).parent.name]
    finally:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)  # the compiler that outlived its builder


def test_an_interrupted_build_ends_its_compilers_and_leaves_nothing(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("PID_FILE", str(pid_file))
    fake.go(OUTPUT + 'printf ha > "$OUT"; echo $$ > "$PID_FILE"; echo some/package; exec sleep 600\n')

    class Interrupting:
        def step(self, _: str) -> "Interrupting":
            return self

        def __enter__(self) -> Callable[[str], None]:
            def update(_: str) -> None:
                raise KeyboardInterrupt

            return update

        def __exit__(self, *_: object) -> None: ...

        def note(self, _: str) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        build(TOOLS["versitygw"], Interrupting())
    assert leftovers(fake.cache) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_the_other_tools_are_built_beside_the_first(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each build waits until the other has begun: one after the other would never end."""
    monkeypatch.setenv("MEET", str(tmp_path))
    fake.go(OUTPUT + 'NAME=${OUT##*/}; touch "$MEET/$NAME"; nice > "$OUT"\n'
            'until [ -e "$MEET/kubernetes" ] && [ -e "$MEET/versitygw" ]; do sleep 0.01; done\n')  # fmt: skip
    first, second, third = build_all([*TOOLS.values()], Silent())
    assert [path.name for path in (first, second, third)] == ["kubernetes", "versitygw", "prometheus"]
    assert int(first.read_text()) < int(second.read_text()) == int(third.read_text()) == 19


def test_a_build_that_fails_ends_the_one_beside_it(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("PID_FILE", str(pid_file))
    fails = 'case $OUT in */kubernetes) until [ -s "$PID_FILE" ]; do sleep 0.01; done; exit 2; esac\n'
    fake.go(OUTPUT + fails + 'echo $$ > "$PID_FILE"; exec sleep 600\n')
    with pytest.raises(ToolError, match=r"building kubernetes failed \(exit code 2\)"):
        build_all([*TOOLS.values()], Silent())
    assert leftovers(fake.cache) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_build_says_how_far_it_is(fake: Fake) -> None:
    fake.go(OUTPUT + 'echo go: downloading example.org/x v1.0.0; echo some/package; echo whole > "$OUT"\n')
    said: list[str] = []

    class Listening(Silent):
        @contextmanager
        def step(self, what: str) -> Iterator[Callable[[str], None]]:
            said.append(what)
            yield said.append

    build(TOOLS["versitygw"], Listening())
    version = toolchain.module_version(TOOLS["versitygw"])
    assert said == [
        f"Building versitygw {version} (once; about 1 minute on two free cores)",
        "downloading example.org/x",
        "1 of about 12 packages compiled",
    ]


def test_a_failed_build_shows_the_end_of_its_output(fake: Fake) -> None:
    fake.go("seq 100; echo main.go:7: undefined: x; exit 2\n")
    with pytest.raises(ToolError, match=r"building versitygw failed \(exit code 2\)") as caught:
        build(TOOLS["versitygw"])
    assert "main.go:7: undefined: x" in str(caught.value)
    assert "\n7\n" not in str(caught.value), "the whole output is not a message"
    assert leftovers(fake.cache) == []


def test_a_disk_that_fills_up_during_the_build_is_named(fake: Fake) -> None:
    fake.go("echo write /tmp/x: no space left on device; exit 1\n")
    with pytest.raises(ToolError, match="the disk is full: make room"):
        build(TOOLS["versitygw"])


def test_too_little_space_is_refused_before_the_build(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.go("exit 1\n")
    usage = shutil.disk_usage("/")._replace(free=100 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ToolError, match=r"0.1 GiB are free in .*4 GiB are needed.*HOLDFAST_CACHE"):
        build(TOOLS["kubernetes"])
    assert leftovers(fake.cache) == []


def test_a_cache_that_cannot_be_written_is_named(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake.go(GOOD)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolError, match=r"versitygw cannot be built below .*file"):
        build(TOOLS["versitygw"])


@pytest.mark.parametrize("source", ["go.mod", "go.sum", "main.go"])
def test_the_key_changes_with_every_source(fake: Fake, source: str) -> None:
    before = cache_key(TOOLS["kubernetes"])
    path = fake.modules / "kubernetes" / source
    path.write_text(path.read_text() + "\n")
    assert cache_key(TOOLS["kubernetes"]) != before


def test_the_key_changes_with_flags_and_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {cache_key(TOOLS["versitygw"])}
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    keys.add(cache_key(TOOLS["versitygw"]))
    monkeypatch.setattr(toolchain, "flags", lambda _: ("-race",))
    keys.add(cache_key(TOOLS["versitygw"]))
    assert len(keys) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", key) for key in keys)


@pytest.mark.parametrize("tool", [*TOOLS.values(), *BY_NAME.values()], ids=lambda tool: tool.name)
def test_every_module_is_pinned_with_checksums(tool: toolchain.Tool) -> None:
    folder = tool.sources
    version = toolchain.module_version(tool)
    assert f"{tool.module} {version} h1:" in (folder / "go.sum").read_text()
    assert toolchain.minimum_go(tool) >= (1, 24, 0)
    assert version in flags(tool)[-1]


def test_the_s3_server_is_one_with_a_single_winner() -> None:
    """Up to v1.7.0 two create-only PUTs of one key could both succeed, which breaks the checkpoint log."""
    version = tuple(map(int, toolchain.module_version(TOOLS["versitygw"]).removeprefix("v").split(".")))
    assert version >= (1, 8, 0)


def test_every_tool_has_its_name_on_the_command_line() -> None:
    assert [*ToolName] == [*TOOLS]
