"""What a writer that is not root cannot read holds nothing up."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

LOOK = """
import json, pathlib, sys
from holdfast_train.folder.look import look
seen = look(pathlib.Path(sys.argv[1]))
print(json.dumps([sorted(seen.files), sorted(seen.out)]))
"""


def as_no_root() -> None:
    """Root may not read all files from now on. For others nothing changes."""
    for capability in (1, 2):  # to ignore the permissions of files, and of folders
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


def test_without_permission(tmp_path: Path) -> None:
    for name in ("closed/inside", "listed/inside", "mine/secret", "mine/open"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "mine/secret").chmod(0)
    (tmp_path / "closed").chmod(0)
    (tmp_path / "listed").chmod(0o600)
    try:
        command = [sys.executable, "-c", LOOK, str(tmp_path)]
        seen = subprocess.run(command, capture_output=True, check=True, preexec_fn=as_no_root).stdout
    finally:
        for folder in ("closed", "listed"):
            (tmp_path / folder).chmod(0o700)
    assert json.loads(seen) == [["mine/open"], ["closed", "listed/inside", "mine/secret"]]
