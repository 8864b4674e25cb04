"""Whole and torn files of the real libraries, and content that was made to break a reader."""

import bz2
import gzip
import json
import lzma
import os
import pickle
import sqlite3
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from holdfast_train.folder.formats import MOST, is_state, is_zeros, whole
from holdfast_train.folder.inside import metrics_in, step_in, text_in

Make = Callable[[Path], object]
TENSORS = {"a": torch.zeros(99), "b": torch.ones(3, dtype=torch.bfloat16)}
STATE = {"weights": list(range(300)), "text": ".." * 40_000, "bytes": b"." * 70_000, "more": "." * 70_000}


def is_whole(path: Path) -> bool | None:
    return whole(path, path.stat().st_size)


def arrays(path: Path) -> None:
    """As Equinox writes the leaves of a tree: one array after another."""
    with path.open("wb") as opened:
        for size in (3, 1, 7):
            np.save(opened, np.ones(size))


def distributed(path: Path) -> None:
    from torch.distributed.checkpoint import save

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(
            {"a": torch.zeros(1000), "b": torch.ones(2000), "step": 5}, checkpoint_id=path.parent / "dcp", no_dist=True
        )
    next((path.parent / "dcp").glob("*.distcp")).rename(path)


def sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table rows (number)")
        connection.executemany("insert into rows values (?)", [(number,) for number in range(2000)])
    connection.close()


def parquet(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), path)


def arrow(path: Path) -> None:
    import pyarrow

    table = pyarrow.table({"a": [1, 2]})
    with pyarrow.OSFile(str(path), "wb") as opened, pyarrow.ipc.new_file(opened, table.schema) as writer:
        writer.write(table)


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in members.items():
            opened.writestr(name.replace("__", "."), content)


def tar(path: Path) -> None:
    np.save(path.with_suffix(".npy"), np.ones(3))
    with tarfile.open(path, "w") as opened:
        opened.add(path.with_suffix(".npy"), "a.npy")


def hdf5(path: Path, version: int = 0, size: int = 800) -> None:
    """The first block of HDF5, as its specification says it, and data."""
    head = b"\x89HDF\r\n\x1a\n" + bytes([version])
    head += bytes([0, 0, 0, 0, 8, 8, 0]) + bytes(8 if version == 0 else 12) if version < 2 else bytes([8, 8, 0])
    head += struct.pack("<3Q", 0, 2**64 - 1, size)
    path.write_bytes(head + b"d" * (size - len(head)))


def lightning(path: Path) -> None:
    import lightning as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch: Any) -> Any:
            loss = self.layer(batch).mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    best = ModelCheckpoint(path.parent / "best", monitor="loss", every_n_train_steps=1)
    trainer = pl.Trainer(
        max_steps=3, accelerator="cpu", logger=False, callbacks=[best], enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2))
        trainer.save_checkpoint(path)


def trainer_state(path: Path, entries: int = 3) -> None:
    from transformers.trainer_callback import TrainerState

    history = [{"loss": 9.0 - step / 1e9, "step": step} for step in range(1, entries)]
    state = TrainerState(
        global_step=entries,
        best_model_checkpoint="out/checkpoint-2",
        log_history=[*history, {"eval_loss": 1.25, "grad_norm": 2, "epoch": 1.0, "is_on": True, "step": entries}],
        stateful_callbacks={"TrainerControl": {"args": {"should_save": True, "step": 77}, "attributes": {}}},
    )
    state.save_to_json(str(path))


def packed(compress: Callable[[bytes], bytes], content: bytes = b"") -> Make:
    return lambda path: path.write_bytes(compress(content or pickle.dumps(STATE)))


def dumped(value: object, protocol: int = 5) -> Make:
    return lambda path: path.write_bytes(pickle.dumps(value, protocol=protocol))


# Of each file: is it whole, may a program resume from it.
REAL = {
    "torch": (lambda path: torch.save(TENSORS, path), True, True),
    "torch distributed": (distributed, True, True),
    "safetensors": (lambda path: save_file(TENSORS, path, {"format": "pt"}), True, True),
    "npz": (lambda path: np.savez(path.open("wb"), a=np.zeros(9)), True, True),
    "npz packed": (lambda path: np.savez_compressed(path.open("wb"), a=np.zeros(9)), True, True),
    "npy": (lambda path: np.save(path.open("wb"), np.zeros((30, 4))), True, True),
    "npy of texts": (lambda path: np.save(path.open("wb"), np.zeros(7, dtype="<U5")), True, True),
    "npy of one number": (lambda path: np.save(path.open("wb"), np.float32(1)), True, True),
    "hdf5": (hdf5, True, True),
    "hdf5 v1": (lambda path: hdf5(path, 1), True, True),
    "hdf5 v3": (lambda path: hdf5(path, 3), True, True),
    "keras": (lambda path: archive(path, config__json=b"{}", model__weights__h5=b"h5"), True, True),
    "stable baselines": (lambda path: archive(path, data=b"{}", policy__pth=b"PK\5\6" + bytes(18)), True, True),
    "wheel": (lambda path: archive(path, **{"a-1.dist-info/RECORD": b"", "a__pkl": b""}), True, False),
    "pickle 4": (dumped(STATE, 4), True, True),
    "pickle 5": (dumped(STATE), True, True),
    "small pickle": (dumped({"a": 1}), True, True),
    "json": (lambda path: path.write_text(json.dumps({"a": [1, {"b": "x } y"}]}, indent=2)), True, False),
    "json list": (lambda path: path.write_text(json.dumps([{"a": 1}, {"b": [-2.5, None]}])), True, False),
    "trainer state": (trainer_state, True, False),
    "sqlite": (sqlite, True, False),
    "parquet": (parquet, True, False),
    "arrow": (arrow, True, False),
    "tar": (tar, True, False),
    "xz": (packed(lzma.compress), True, True),
}
UNTOLD = {
    "torch before zip": (lambda path: torch.save(TENSORS, path, _use_new_zipfile_serialization=False), True),
    "gzip": (packed(gzip.compress), True),
    "bz2": (packed(bz2.compress), True),
    "joblib": (packed(zlib.compress), True),
    "gzip of a text": (packed(gzip.compress, b"hello" * 99), False),
    "npy of objects": (lambda path: np.save(path.open("wb"), np.array([{1: 2}], dtype=object)), True),
    "text": (lambda path: path.write_text("step 1 loss 2\n"), False),
    "log": (lambda path: path.write_text("[2026-01-01 12:00] INFO step 1\n[2026"), False),
    "printed": (lambda path: path.write_text("{'loss': 1}\n{'lo"), False),
    "log after json": (lambda path: path.write_text('{"lr": 1}\nstep 1\n'), False),
    "json with comments": (lambda path: path.write_text('{"lr": 1, // the rate\n "b": 2, "c": 3}'), False),
    "image": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99)), False),
    "nothing": (lambda path: path.write_bytes(b""), False),
    "zeros": (lambda path: path.write_bytes(bytes(5000)), False),
    "flax": (lambda path: path.write_bytes(b"\x82\xa6params\x80\xa4step\x05"), True),
    "xgboost": (lambda path: path.write_bytes(b"{L" + bytes(7) + b"\x07learner{"), True),
    "lightgbm": (lambda path: path.write_text("tree\nversion=v4\nnum_class=1\n"), True),
    "tensorflow index": (lambda path: path.write_bytes(bytes(40) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"), True),
}


# Breaks if a torn file of a known kind is committed as whole, or a whole one is never committed.
@pytest.mark.parametrize("kind", REAL)
def test_a_whole_file_and_each_cut_of_it(tmp_path: Path, kind: str) -> None:
    make, expected, state = REAL[kind]
    path = tmp_path / "file.bin"
    make(path)
    size = path.stat().st_size
    assert (is_whole(path), is_state(path)) == (expected, state)
    size = (
        len(path.read_bytes().rstrip(b"\0\n")) if kind in ("tar", "trainer state") else size
    )  # then it ends with nothing
    cuts = {*range(0, size, max(1, size // 150)), *range(max(0, size - 40), size), *range(min(size, 24))}
    assert [cut for cut in sorted(cuts) if whole(path, cut)] == []
    assert [cut for cut in sorted(cuts) if cut > 300 and whole(path, cut) is None] == []


@pytest.mark.parametrize("kind", UNTOLD)
def test_formats_that_do_not_tell(tmp_path: Path, kind: str) -> None:
    make, state = UNTOLD[kind]
    path = tmp_path / "file.pt"
    make(path)
    assert (is_whole(path), is_state(path)) == (None, state)


# Breaks if files that are whole after each array or each line count as torn.
def test_one_part_after_another(tmp_path: Path) -> None:
    arrays(tmp_path / "leaves.eqx")
    assert is_whole(tmp_path / "leaves.eqx")
    sizes = [cut for cut in range((tmp_path / "leaves.eqx").stat().st_size) if whole(tmp_path / "leaves.eqx", cut)]
    assert sizes == [152, 288]
    for text, expected in (
        ('{"a": 1}\n{"a": {"b": 2}}\n', True),
        ('{"a": 1}\n{"a": {"b', False),
        ('{"a": 1}\n' * 200_000, True),
        ('{"a": 1}\n' * 200_000 + '{"a"', False),
        (json.dumps({"a": [[1, 2]] * 60_000}, indent=1), True),
        (json.dumps({"a": [{"b": 2}] * 60_000}, indent=1)[:-4], False),
    ):
        (tmp_path / "log").write_text(text)
        assert is_whole(tmp_path / "log") is expected


def test_old_protocols_of_pickle(tmp_path: Path) -> None:
    for protocol in (2, 3):
        dumped([1, "abc"], protocol)(tmp_path / "a")
        size = (tmp_path / "a").stat().st_size
        assert [whole(tmp_path / "a", cut) for cut in range(2, size + 1)] == [False] * (size - 2) + [True]


def test_archives_beyond_4_gib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    archive(tmp_path / "a", x__npy=b"1", y__npy=b"2")
    assert b"PK\6\6" in (tmp_path / "a").read_bytes()
    assert is_whole(tmp_path / "a")
    assert not any(whole(tmp_path / "a", cut) for cut in range((tmp_path / "a").stat().st_size))
    assert is_state(tmp_path / "a")


# Breaks if zeros at one end, as arrays have them, are taken for what a power cut left.
def test_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content, zeros in ((bytes(200_000), True), (b"", False), (b"1" + bytes(200_000), False)):
        path.write_bytes(content)
        assert is_zeros(path, len(content)) is zeros


# Breaks if a link leads out of the folder, or if a pipe stops the program that asks.
def test_links_and_pipes(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing", "."):
        for ask in (is_state, step_in, metrics_in, text_in, is_whole):
            with pytest.raises(OSError):
                ask(tmp_path / name)


# Breaks if the length of a long run's history decides whether its checkpoint is whole, or hides its step.
@pytest.mark.parametrize("entries", [3, 30_000])
def test_state_of_the_trainer(tmp_path: Path, entries: int) -> None:
    path = tmp_path / "trainer_state.json"
    trainer_state(path, entries)
    assert (path.stat().st_size > MOST) == (entries > 3)
    assert (is_whole(path), step_in(path)) == (True, entries)
    assert metrics_in(path) == {
        "loss": "9" if entries == 3 else "8.99997",
        "eval_loss": "1.25",
        "grad_norm": "2",
        "epoch": "1",
    }
    assert "out/checkpoint-2" in (text_in(path) or "")
    unsorted = json.loads(path.read_text())
    unsorted["global_step"] = unsorted.pop("global_step")
    path.write_text(json.dumps(unsorted))
    assert (is_whole(path), step_in(path)) == (True, entries)


def test_70_mib_of_history(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    entry = b'{\n   "loss": 1.5,\n   "step": 7\n  }'
    with path.open("wb") as opened:
        opened.write(b'{\n "global_step": 9,\n "log_history": [\n  ')
        for _ in range(70):
            opened.write((entry + b",\n  ") * (MOST // (len(entry) + 4)))
        opened.write(entry)
        size = opened.tell()
        opened.write(b"\n ],\n" + b' "max_steps": 20\n}\n')
    assert path.stat().st_size > 69 << 20
    assert (is_whole(path), step_in(path), metrics_in(path)) == (True, 9, {"loss": "1.5"})
    assert whole(path, size) is False


@pytest.mark.training
def test_step_and_texts_of_lightning(tmp_path: Path) -> None:
    lightning(tmp_path / "last.ckpt")
    assert (is_whole(tmp_path / "last.ckpt"), is_state(tmp_path / "last.ckpt"), step_in(tmp_path / "last.ckpt")) == (
        True,
        True,
        3,
    )
    assert "epoch=0-step=" in (text_in(tmp_path / "last.ckpt") or "")
    torch.save({"global_step": 4}, tmp_path / "other.pt")
    assert step_in(tmp_path / "other.pt") is None


def test_nothing_is_said_inside_of_other_files(tmp_path: Path) -> None:
    for content in (b"", b"text", b'{"step": 3, "global_step": 3}', bytes(100), b"[]"):
        (tmp_path / "a").write_bytes(content)
        assert (step_in(tmp_path / "a"), metrics_in(tmp_path / "a")) == (None, {})


HEADS = [
    b"PK\3\4",
    b"PK\5\6" + bytes(12) + b"\xff" * 6,
    b"PK\6\6" + b"\xff" * 52 + b"PK\6\7" + bytes(16) + b"PK\5\6" + bytes(18),
    b"PK\3\4" + bytes(22) + b"\x10\0\0\0archive/data.pkl\x80\2",
    b"\x80\4\x95" + b"\xff" * 8,
    b"\x80\5\x8e" + b"\xff" * 7 + b"\x7f.",
    b"\x89HDF\r\n\x1a\n\0",
    b"\x89HDF\r\n\x1a\n\2\xff",
    b"\x93NUMPY\1\0\x76\0{'descr': '<f8', 'shape': (99999999999,), }",
    b"\x93NUMPY\2\0\xff\xff\xff\xff",
    b"\xff\xff\xff\x05\0\0\0\0{",
    b"\x40\0\0\0\0\0\0\0" + b'{"a":{"data_offsets":[0,999999999999999999]}}',
    b"[" * 9000,
    b'{"a":' * 9000,
    b'{"a": ' + b"9" * 5000 + b"}",
    b'{"log_history": [{"step": ' + b"9" * 400 + b"}",
    b'{"log_history": [{"step": 1, "a": 1' + b"0" * 400 + b"}, [",
    b'{"log_history": [{' + b'"step"' * 100_000,
    b"\x93NUMPY\2\0\xff\xff\0\0" + b"'descr': 'f8'," * 4000,
    b'{"global_step": ' + b"9" * 400,
    b"SQLite format 3\0",
    b"PAR1",
    b"ARROW1\0\0",
    b"x" * 257 + b"ustar",
    *(b"\x1f\x8b", b"\x78\x9c", b"BZh9", b"\xfd7zXZ\0", b""),
]


# Breaks if bytes that a stranger made end the process that saves.
@given(st.sampled_from(HEADS), st.binary(max_size=400), st.integers(-9, 9))
def test_no_content_raises(tmp_path_factory: pytest.TempPathFactory, head: bytes, rest: bytes, more: int) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile"
    path.write_bytes(head + rest)
    assert whole(path, max(0, len(head + rest) + more)) in (True, False, None)
    assert is_state(path) in (True, False)
    assert is_zeros(path, len(head + rest)) in (True, False)
    step = step_in(path)
    assert step is None or 0 <= step < 10**15
    assert all(isinstance(value, str) for value in metrics_in(path).values())
    assert isinstance(text_in(path), str | None)


# Breaks if a small archive that unpacks to gigabytes is unpacked.
def test_bombs(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for bomb in (gzip.compress(bytes(5_000_000)), bz2.compress(bytes(5_000_000)), lzma.compress(bytes(5_000_000))):
        path.write_bytes(bomb)
        assert not is_state(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("archive/data.pkl", bytes(5_000_000))
    assert (is_whole(path), is_state(path), step_in(path)) == (True, True, None)
