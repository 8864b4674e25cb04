"""docs/reference/real-nodes.md: the table of a run of these tests."""

import platform
import re
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.support.real_node import control_groups
from tests.support.tools.catalogue import CONTAINERD, COREDNS, KUBELET

from holdfast_local import toolchain

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "real-nodes.md"
_TABLE = re.compile(r"(?<=<!-- written by `make test-node ARGS=--record` -->\n).*?(?=<!-- end -->)", re.DOTALL)


class Case(NamedTuple):
    """A test: its node ID, how it ended (passed, failed or skipped), and its seconds."""

    test: str
    outcome: str
    seconds: float


def write(cases: Iterable[Case]) -> None:
    """Replace the table of the page."""
    rows = [f"| {_sentence(case.test)} | {case.outcome} | {case.seconds:.0f} s |" for case in cases]
    text = "\n".join([f"\n{_versions()}\n", "| case | result | time |", "|---|---|---|", *rows, "\n"])
    PAGE.write_text(_TABLE.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _sentence(test: str) -> str:
    """`...::test_a_reboot_is_a_loss[x]` as `A reboot is a loss (x)`."""
    name, _, more = test.rpartition("::")[2].partition("[")
    words = name.removeprefix("test_").replace("_", " ")
    return f"{words[0].upper()}{words[1:]}" + (f" ({more.rstrip(']')})" if more else "")


def _versions() -> str:
    runc = subprocess.run(["runc", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    parts = {
        "kubelet and kube-proxy": toolchain.module_version(KUBELET),
        "containerd": toolchain.module_version(CONTAINERD),
        "runc": runc,
        "CoreDNS": toolchain.module_version(COREDNS),
        "Linux": platform.release(),
    }
    listed = ", ".join(f"{name} {version}" for name, version in parts.items())
    groups = 2 if control_groups.is_version_2() else 1
    return f"Run on {datetime.now(UTC):%Y-%m-%d}: {listed}, control groups of version {groups}, {platform.machine()}."
