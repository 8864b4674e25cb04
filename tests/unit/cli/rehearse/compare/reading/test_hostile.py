"""Files of an unknown program: no content is executed, raises, or takes much time or memory."""

import io
import os
import pickle
import pickletools
import struct
import tempfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.rehearse.compare.reading.joblib_file import JOBLIB

from holdfast_cli.rehearse.compare.reading import archive, pickle_machine
from holdfast_cli.rehearse.compare.reading import values as limits
from holdfast_cli.rehearse.compare.reading.read import read_source
from holdfast_cli.rehearse.compare.reading.source import Memory
from holdfast_cli.rehearse.compare.reading.values import MOST_VALUES, Contents, UnreadableError, Value


def values(data: bytes) -> Contents:
    """What is read; all of its bytes are read too."""
    found = read_source(Memory(data))
    assert found.values or not data.strip() or found.form != "bytes"
    return found


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [2, 4, 5])
# Breaks if anything that a pickle names is called.
def test_a_pickle_that_runs_a_command(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "executed"
    evil = Evil(f"touch {mark}")
    data = pickle.dumps({"x": evil}, protocol)
    saved = io.BytesIO()
    torch.save({"x": evil, "y": torch.ones(2)}, saved, pickle_protocol=protocol)
    for one in (data, saved.getvalue()):
        found = values(one).values
        assert found["x:type"] == "posix.system"
        assert found["x.(0)"] == evil.command
    assert not mark.exists()
    pickle.loads(data)
    assert mark.exists()  # the test would see it


def nested(levels: int) -> bytes:
    """A list with one list, twice, with one list, twice..."""
    return b"\x80\x02]q\x00" + b"".join(b"]q%c(h%ch%ce" % (n + 1, n, n) for n in range(levels)) + b"."


def calls(function: bytes, argument: bytes, times: int = 2000) -> bytes:
    """A tuple of calls of `function`, all with the same argument."""
    one = b"h\x00h\x01\x85R"
    return b"\x80\x05" + function + b"q\x000" + argument + b"q\x010(" + one * times + b"t."


def long_names() -> bytes:
    """60 mappings inside each other, with long keys, and many values in the innermost one."""
    key = b"X" + struct.pack("<I", 200) + b"k" * 200
    return b"\x80\x02" + (b"}" + key) * 60 + b"](" + b"]" * 9900 + b"e" + b"s" * 60 + b"."


LIMITS: Final = [
    (limits, "MOST_VALUES"), (limits, "MOST_VISITS"), (limits, "MOST_MADE"), (limits, "MOST_NODES"),
    (pickle_machine, "MOST_OPERATIONS"),
]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        nested(60),
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.",  # bytes of a size that nobody has
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",
        b"\x80\x02K\x01r\xff\xff\xff\x7f.",  # a memo with two thousand million entries
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"\x80\x02L" + b"9" * 100_000 + b"L\n.",
        b"\x80\x02\x8b" + struct.pack("<i", 100_000) + b"\x7f" * 100_000 + b".",
        b"\x80\x02)\x81.",
        b"\x80\x02(" + b"]q\x00" + b"(" + b"K\x01" * 10_000 + b"e" + b"h\x00" * 5000 + b"t.",  # one list, 5,000 times
        b"\x80\x05(\x96" + struct.pack("<Q", 1 << 20) + bytes(1 << 20) + b"\x94" + b"h\x00" * 2000 + b"t.",
        b"\x80\x02(X" + struct.pack("<I", 1 << 20) + b"x" * (1 << 20) + b"q\x00" + b"h\x00" * 2000 + b"t.",
        b"\x80\x02]q\x00(" + b"h\x00" * 50_000 + b"e.",  # a list that contains itself
        b"\x80\x04((" + b"".join(b"M%c" % n + b"0" for n in range(200)) * 45 + b"\x91\x94" + b"h\0" * 999 + b"t.",
        calls(b"cbuiltins\nbytearray\n", b"\x96" + struct.pack("<Q", 1 << 20) + bytes(1 << 20)),
        calls(b"ccollections\nOrderedDict\n", b"](" + b"K\x01K\x01\x86" * 10_000 + b"e"),
        calls(b"c_codecs\nencode\n", b"X" + struct.pack("<I", 1 << 20) + b"x" * (1 << 20)),
        calls(b"c_codecs\nencode\n", nested(60)[2:-1]),
        long_names(),
        (b"\x80\x02" + b"]" * 5000 + b"0" * 4999 + b".") * 90,  # many pickles
        b"[" + b"{}," * 1_000_000 + b"{}]",
        b"\n" * (4 << 20),
        b"\x80\x02cos\nsystem\n(S'echo'\ntR.",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1" + b"0" * 10_000 + b"]",
        (1 << 60).to_bytes(8, "little"),
        b"\x10" + bytes(7) + b'{"a":[]}        ',
        b'\x93NUMPY\x01\x00\x40\x00{"descr":"<f8","fortran_order":False,"shape":(1<<60,)}',
        b"PK\x05\x06" + b"\xff" * 18,
        b"a,b\n1,2\n" + b'"' * 1000,
    ],
)  # fmt: skip
# Breaks if damaged or hostile content raises, hangs, or takes all memory.
def test_bombs(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in LIMITS:  # a tenth of all of them, so that it takes a tenth of the time too
        monkeypatch.setattr(module, name, getattr(module, name) // 10)
    tracemalloc.start(1)
    try:
        assert len(values(data).values) <= MOST_VALUES // 10 + 1
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


# Breaks if an archive that is small, and large when it is decompressed, is decompressed.
def test_a_bomb_in_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_PACKED", 1 << 20)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("a", "b"):
            packed.writestr(name, bytes(700_000))
    found = values(data.getvalue())
    assert (found.form, "when they are decompressed" in found.note) == ("bytes", True)


def genuine() -> list[bytes]:
    """Files of the formats that are known."""
    saved, arrays, old = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.arange(4.0), "b": [1, 2.5, "x"]}, saved)
    torch.save({"a": torch.arange(4.0)}, old, _use_new_zipfile_serialization=False)
    np.savez(arrays, a=np.arange(3), b=np.ones((2, 2)))
    return [
        saved.getvalue(), arrays.getvalue(), old.getvalue(), pickle.dumps({"a": np.arange(3), "b": {"c": (1, None)}}),
        JOBLIB, b'{"a": [1, 2.5, {"b": null}]}', b"step,loss\n1,0.5\n2,0.25\n",
        b'\x40\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}           12345678',
    ]  # fmt: skip


GENUINE = genuine()


@given(st.sampled_from(GENUINE), st.data())
# Breaks if a file of which some bytes are changed, or that is cut, raises.
def test_damaged_files(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for at in draw.draw(st.lists(st.integers(0, len(data) - 1), max_size=4)):
        damaged[at] = draw.draw(st.integers(0, 255))
    values(bytes(damaged[: draw.draw(st.integers(0, len(data)))]))


OPERATIONS = [operation.code.encode("latin-1") for operation in pickletools.opcodes]


@given(st.lists(st.sampled_from(OPERATIONS) | st.binary(max_size=3), max_size=30))
# Breaks if any order of the operations of pickle raises another error than the one that readers expect.
def test_any_operations(operations: list[bytes]) -> None:
    data = b"\x80\x04" + b"".join(operations) + b"."
    values(data)
    try:
        pickle_machine.load(io.BytesIO(data))
    except UnreadableError:
        return


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x80\x04", b"PK\3\4", b"\x93NUMPY\1\0", b"{", b"["]))
# Breaks if any bytes raise.
def test_any_bytes(data: bytes, head: bytes) -> None:
    values(head + data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def leaves(value: Any) -> list[Value]:
    """The leaves of a value in their order."""
    if isinstance(value, dict | list) and value:
        return [leaf for one in (value.values() if isinstance(value, dict) else value) for leaf in leaves(one)]
    return (
        [f"an empty {'mapping' if isinstance(value, dict) else 'list'}"] if isinstance(value, dict | list) else [value]
    )


@given(JSON)
# Breaks if a leaf of a value is lost, appears twice, or gets the place of another one.
def test_each_leaf_has_one_place(value: Any) -> None:
    with tempfile.TemporaryFile() as file:
        pickle.dump(value, file)
        file.seek(0)
        found = read_source(Memory(file.read()))
    wanted = [hex(leaf) if type(leaf) is int and abs(leaf) >= 1 << 64 else leaf for leaf in leaves(value)]
    assert list(found.values.values()) == wanted
