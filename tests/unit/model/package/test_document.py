"""A package from a stranger: for all contents of package.json and of the tests, the answer is a PackageError."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from safetensors.numpy import save_file

from holdfast_model.package import PackageError, load
from holdfast_model.package.folder import TESTS, file_entry, open_package
from holdfast_model.package.package_tests import run_tests
from holdfast_model.package.variant_tests import Assessment

NOT: Final[Sequence[Any]] = [None, True, 1, 1.5, "x", [], ["x"], [1], {}, {"x": 1}, [[]], "\0"]
"""Values of every kind, at a place where another kind belongs."""


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [way for key, one in inner for way in ((*at, key), *places(one, (*at, key)))]


def changed(document: Any, way: tuple[Any, ...], change: Callable[[Any, Any], None]) -> str:
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in way[:-1]:
        holder = holder[key]
    change(holder, way[-1])
    return json.dumps(copy)


def put(value: Any, holder: Any, key: Any) -> None:
    holder[key] = value


# Breaks if a field is used before its type is known: the error would be a KeyError, TypeError or worse.
def test_every_field_may_be_missing_or_anything(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make()
    monkeypatch.setattr(
        "holdfast_model.package.package_tests.judge", lambda *_: Assessment(passed=True, agreement=0.99)
    )
    monkeypatch.setattr("holdfast_model.package.loader.Model", lambda *_, **__: None)
    document = json.loads((folder / "package.json").read_text())
    document["variants"]["onnx"]["fixed"] = {"rows": 2}
    document |= {"pages": {TESTS: file_entry(folder / TESTS)}, "failed": {"pt2": "no"}}
    texts = []
    for way in places(document):
        texts.append(changed(document, way, lambda holder, key: holder.pop(key)))
        texts += [changed(document, way, partial(put, value)) for value in NOT]
    refused = 0
    for text in texts:
        (folder / "package.json").write_text(text)
        for use in (load, run_tests):
            try:
                use(folder)
            except PackageError:
                refused += 1
    assert refused > len(texts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"v": 1, "problem": {"inputs": NaN}}', "NaN is not JSON"),
        ("\udcff", "damaged"),
    ],
)
def test_what_is_not_json_is_refused(make: Callable[..., Path], text: str, said: str) -> None:
    folder = make()
    (folder / "package.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(PackageError, match=said):
        load(folder)


@pytest.mark.parametrize(
    ("dims", "shape", "said"),
    [
        ('{"rows": [1, 1e999]}', '["rows", 3]', "problem.dims.'rows' is inf; allowed: a whole number"),
        ('{"rows": [8, 1]}', '["rows", 3]', "allowed: 1 <= least <= largest"),
        ('{"rows": [1, 8]}', '["rows", -3]', "the shape has -3"),
        ('{"rows": [1, 8]}', '["columns", 3]', "the shape has 'columns', which dims lacks"),
        ('{"rows": [1, 8]}', "[true, 3]", "allowed: at most 32 numbers and symbols"),
    ],
)
def test_sizes_are_those_of_a_problem(make: Callable[..., Path], dims: str, shape: str, said: str) -> None:
    folder = make(problem="PROBLEM")
    tensors = [f'[{{"name": "{name}", "dtype": "float32", "shape": {shape}}}]' for name in "xy"]
    problem = f'{{"inputs": {tensors[0]}, "outputs": {tensors[1]}, "dims": {dims}}}'
    file = folder / "package.json"
    file.write_text(file.read_text().replace('"PROBLEM"', problem))
    with pytest.raises(PackageError) as caught:
        open_package(folder)
    assert said in str(caught.value)


# Breaks if a file that no hash protects is run.
def test_a_model_without_a_hash_is_refused(make: Callable[..., Path]) -> None:
    folder = make()
    entry = json.loads((folder / "package.json").read_text())["variants"]["onnx"]
    make(variants={"onnx": entry | {"files": {TESTS: file_entry(folder / TESTS)}}})
    with pytest.raises(PackageError, match=r"files lacks the model 'onnx/model\.onnx'"):
        load(folder)
    make(variants={"onnx": entry | {"files": {}, "tested": {"passed": False, "why": "it could not be made"}}})
    with pytest.raises(PackageError, match="could not be made: it has no file"):
        load(folder, "onnx")


# Breaks if a link makes a program read a file outside of the package.
def test_a_link_out_of_the_package_is_refused(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make()
    file = folder / "onnx" / "model.onnx"
    file.rename(tmp_path / "model.onnx")
    file.symlink_to(tmp_path / "model.onnx")
    with pytest.raises(PackageError, match="is outside of the package"):
        load(folder)
    file.unlink()
    (tmp_path / "model.onnx").rename(folder / "onnx" / "real.onnx")
    file.symlink_to("real.onnx")  # within the package: allowed
    load(folder).close()


@pytest.mark.parametrize("key", ["x", "0/in", "0/side/x", "7/in/x", "one/in/x", "0/in/z"])
def test_tests_of_other_names_are_refused(make: Callable[..., Path], key: str) -> None:
    folder = make()
    x = np.zeros((2, 3), np.float32)
    save_file({"0/in/x": x, "0/out/y": x, key: x}, folder / TESTS)
    document = json.loads((folder / "package.json").read_text())
    document["tests"] |= file_entry(folder / TESTS)
    (folder / "package.json").write_text(json.dumps(document))
    with pytest.raises(PackageError):
        run_tests(folder)


# Breaks if a size is used in arithmetic that cannot hold it: the page divides it as a float.
def test_a_size_beyond_every_disk_is_refused(make: Callable[..., Path]) -> None:
    folder = make()
    text = (folder / "package.json").read_text()
    size = json.loads(text)["variants"]["onnx"]["files"]["onnx/model.onnx"]["bytes"]
    (folder / "package.json").write_text(text.replace(f'"bytes": {size}', f'"bytes": {"9" * 4000}'))
    with pytest.raises(PackageError, match=r"bytes is 9+\.\.\.; allowed: 0 to"):
        open_package(folder)


# Breaks if a file that somebody adds, such as code that a library runs when it is beside weights, is not noticed.
@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_is_not_of_the_package_is_named(make: Callable[..., Path], link: bool) -> None:
    folder = make()
    added = folder / "onnx" / "modeling.py"
    if link:
        added.symlink_to("/etc/hostname")
    else:
        added.write_text("import os")
    with pytest.raises(PackageError, match=r"has onnx/modeling\.py, which package\.json does not name; remove it"):
        run_tests(folder)


# Breaks if the page of a package, which people open in a browser, can be another one.
def test_a_page_that_has_changed_is_named(make: Callable[..., Path], tmp_path: Path) -> None:
    page = tmp_path / "double" / "report.html"
    page.parent.mkdir()
    page.write_text("ours")
    folder = make(pages={"report.html": file_entry(page)})
    page.write_text("evil")
    with pytest.raises(PackageError, match=r"report\.html has changed since the package was made"):
        run_tests(folder)
