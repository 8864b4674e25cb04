"""What the commands of the Makefile are given."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


# Breaks if every process of a test compiles torch anew where the image forbids Python to keep what it has compiled.
def test_python_keeps_what_it_has_compiled() -> None:
    command = ["make", "--no-print-directory", "--eval", "environment: ; @env", "environment"]
    before = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "KEPT": "1"}
    found = subprocess.run(command, cwd=ROOT, env=before, check=True, capture_output=True, text=True).stdout
    names = [line.partition("=")[0] for line in found.splitlines()]
    assert "KEPT" in names
    assert "PYTHONDONTWRITEBYTECODE" not in names
