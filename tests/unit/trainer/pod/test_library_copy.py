"""The copied library: complete enough for the writer, in a python3 that has nothing of it."""

import subprocess
import sys
from pathlib import Path

import boto3  # noqa: F401 - an init container has imported it, and six with it, when it copies the library

from holdfast_train.pod.library_copy import copy_library

CODE = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p and "holdfast" not in p and "images" not in p]
sys.path.insert(0, sys.argv[1])
import holdfast_train.folder.writer as writer, boto3
assert writer.__file__.startswith(sys.argv[1]), writer.__file__
boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
boto3.client("sts", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
print("torch" in sys.modules)
"""


# Breaks if the writer needs a module that is not copied, or torch.
def test_writer_in_an_image_without_the_library(tmp_path: Path) -> None:
    target = copy_library(tmp_path)
    assert copy_library(tmp_path) == target  # an init container may start twice
    found = subprocess.run(
        [sys.executable, "-S", "-c", CODE, str(target)], capture_output=True, text=True, timeout=60, check=False
    )
    assert not found.stderr, found.stderr
    assert found.stdout == "False\n"
    assert [path.name for path in tmp_path.iterdir()] == ["library"]
    assert not {"exchange", "examples", "frameworks"} & {path.name for path in (target / "holdfast_train").iterdir()}
    assert sum(path.stat().st_size for path in target.rglob("*")) < 40 << 20
