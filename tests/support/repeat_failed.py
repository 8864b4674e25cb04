"""Run pytest; run what failed once more, alone. `python -m tests.support.repeat_failed ARGUMENTS`, as for pytest.

Tests share the cores with each other, and one of thousands may get too little time. A test that passes alone is printed
as `flaky: NAME`, and the run is green. Such a line is a defect: mend it. A run that ends in another way than with
failed tests, or with more than MOST of them, is not repeated; nor is one with an error at collection, one that
stopped early (`-x`), or one with a crashed worker, which pytest-xdist counts among the failed tests. This module is
also the pytest plugin that sees both.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MOST = 10
CRASHED: list[str] = []  # tests in which a worker of this run died


def run(*arguments: str) -> int:
    """Run pytest and return its exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def failed(cache: Path) -> list[str]:
    """The tests that failed, from pytest's cache."""
    file = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """See a crash: the report that pytest-xdist makes for a dead worker has no phase of a test."""
    if report.when not in ("setup", "call", "teardown"):
        CRASHED.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End as interrupted if a worker crashed, or if tests that were not run are left."""
    if CRASHED or session.shouldfail:
        session.exitstatus = pytest.ExitCode.INTERRUPTED


def main(arguments: list[str]) -> int:
    """Run, repeat, and say what is flaky. Returns the exit status of pytest's last run."""
    with tempfile.TemporaryDirectory(prefix="hf-cache-") as folder:
        cache = ("-o", f"cache_dir={folder}")
        status = run(*cache, "-p", "tests.support.repeat_failed", *arguments)
        first = failed(Path(folder))
        if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(first) <= MOST:
            return status
        if any("::" not in name for name in first):  # a file that could not be collected
            return status
        print(f"\nRunning {len(first)} failed once more, alone:", *first, sep="\n  ", flush=True)
        status = run(*cache, *arguments, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")
        again = failed(Path(folder))
        for name in first:
            if name not in again:
                print(f"flaky: {name}", flush=True)
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
