"""Programs of Kubernetes in KUBEBUILDER_ASSETS are used if all of them say that they have the right version."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast_local.assets import BINARIES
from holdfast_local.errors import ToolError
from holdfast_local.progress_bar import Silent, Update
from holdfast_local.toolchain import TOOLS, build, module_version

KUBERNETES = module_version(TOOLS["kubernetes"])
ETCD = module_version(TOOLS["kubernetes"], "go.etcd.io/etcd/server/v3")
SAYS = {
    "etcd": f'[ "$*" = --version ] && echo etcd Version: {ETCD.removeprefix("v")} && echo Go Version: go1',
    "kubectl": f'[ "$*" = "version --client" ] && echo Client Version: {KUBERNETES} && echo Kustomize Version: v5.8.1',
}


class Heard(Silent):
    """Keeps the notes, and the steps."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def step(self, what: str) -> Iterator[Update]:
        self.steps.append(what)
        yield lambda _: None


def write(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all programs in the right versions, an empty cache, and a `go` that builds nothing."""
    found, bin_dir = tmp_path / "the programs", tmp_path / "bin"
    for each in (found, bin_dir):
        each.mkdir()
    for binary in BINARIES:
        write(found, binary.name, SAYS.get(binary.name, f'[ "$*" = --version ] && echo Kubernetes {KUBERNETES}'))
    write(bin_dir, "go", 'if [ "$1" = env ]; then echo go1.99.0; exit; fi; exit 7')
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{bin_dir}:/usr/bin:/bin")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(found))
    return found


def refused(folder: Path) -> str:
    """What is said about the folder, when the tools are built instead."""
    heard = Heard()
    with pytest.raises(ToolError, match="building kubernetes failed"):
        build(TOOLS["kubernetes"], heard)
    assert len(heard.steps) == 1, "it is built instead"
    (note,) = heard.notes
    return note.removeprefix(f"KUBEBUILDER_ASSETS={folder} is not used: ")


def test_programs_of_the_right_versions_are_used_and_nothing_is_built(folder: Path) -> None:
    heard = Heard()
    found = build(TOOLS["kubernetes"], heard)
    assert {found.with_name(name) for name in TOOLS["kubernetes"].links} == {*folder.iterdir()}
    assert (heard.notes, heard.steps) == ([], [])


def test_the_folder_of_envtest_lacks_two_programs(folder: Path) -> None:
    for name in ("kube-controller-manager", "kube-scheduler"):
        (folder / name).unlink()
    assert refused(folder) == "it has no kube-controller-manager, it has no kube-scheduler"


def test_another_version_is_named_and_not_used(folder: Path) -> None:
    write(folder, "kube-scheduler", "echo Kubernetes v1.35.0")
    assert refused(folder) == f"its kube-scheduler is v1.35.0, and {KUBERNETES} is needed"


def test_a_version_with_an_addition_is_another_one(folder: Path) -> None:
    write(folder, "kubectl", f"echo Client Version: {KUBERNETES}-eks-1")
    assert refused(folder) == f"its kubectl is {KUBERNETES}-eks-1, and {KUBERNETES} is needed"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo hello", "etcd does not say its version (exit code 0)"),
        (f"echo etcd Version: {ETCD.removeprefix('v')}; exit 3", "etcd does not say its version (exit code 3)"),
    ],
)
def test_a_program_that_says_no_version_is_not_used(folder: Path, script: str, why: str) -> None:
    write(folder, "etcd", script)
    assert refused(folder) == why


def test_a_file_that_does_not_run_is_not_used(folder: Path) -> None:
    (folder / "etcd").chmod(0o644)
    assert refused(folder).startswith("etcd does not run (")


def test_what_the_cache_has_is_used_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_it = 'while [ "$1" != -o ]; do shift; done; touch "$2"'
    write(tmp_path / "bin", "go", f"case $1 in env) echo go1.99.0;; list) echo x;; *) {build_it};; esac")
    monkeypatch.delenv("KUBEBUILDER_ASSETS")
    built = build(TOOLS["kubernetes"])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    assert build(TOOLS["kubernetes"]) == built


def test_a_folder_that_is_gone_is_named(folder: Path) -> None:
    shutil.rmtree(folder)
    assert refused(folder).startswith("it has no etcd, it has no kube-apiserver, ")
