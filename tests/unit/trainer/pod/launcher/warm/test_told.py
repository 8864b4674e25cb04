"""What the ranks of a program have told, as the launcher reads it."""

from pathlib import Path

import pytest
from tests.support.trainer.spares import tell

from holdfast_train.pod.launcher.warm.told import Told, read_told


# Breaks if a module of the user, or a library whose import does something, is imported before the program starts.
def test_modules_of_known_libraries_alone(tmp_path: Path) -> None:
    names = ["os", "numpy", "torch", "torch.nn", "torchy", "mpi4py", "__main__", "mine.torch", "torch._inductor.x"]
    assert read_told(None, 0) is None
    assert read_told(str(tmp_path), 0) is None
    tell(tmp_path, 7, *names, local_rank=1)
    assert read_told(str(tmp_path), 0) is None
    assert read_told(str(tmp_path), 1) == Told(7, ["numpy", "torch", "torch.nn"], dict.fromkeys(names, ""), "")


# Breaks if a program that prepares its imports is taken for one that does not.
@pytest.mark.parametrize(
    ("changed", "moved", "words"),
    [
        (["OMP_NUM_THREADS", "HF_HOME", "RANK"], True, "the program changes HF_HOME, OMP_NUM_THREADS after its start"),
        (["LC_CTYPE", "MASTER_ADDR", "WANDB_SERVICE", "CUDA_MODULE_LOADING", "PET_MASTER_PORT"], False, ""),
        ([], True, "the program changes on which processor cores it runs"),
    ],
)
def test_what_hinders(tmp_path: Path, changed: list[str], moved: bool, words: str) -> None:
    tell(tmp_path, 7, "torch", changed=changed, moved=moved)
    found = read_told(str(tmp_path), 0)
    assert found is not None
    assert found.hindrance.startswith(words)
    assert bool(found.hindrance) is bool(words)


# Breaks if a file that a program has written itself ends the launcher.
@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"7", b'{"files": []}', b'{"files": {}, "pid": "a"}', b"\xff"])
def test_a_file_that_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "modules.0").write_bytes(text)
    assert read_told(str(tmp_path), 0) is None
