"""Reading manifest files as strictly as the API server."""

from pathlib import Path

import pytest

from holdfast_cli.check.manifests import read
from holdfast_cli.errors import CliError


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "file.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_several_documents_and_lists(tmp_path: Path) -> None:
    text = "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n"
    assert [item["kind"] for item in read(written(tmp_path, text))] == ["A", "B", "C"]


def test_json_is_yaml(tmp_path: Path) -> None:
    assert read(written(tmp_path, '{"kind": "A"}')) == [{"kind": "A"}]


def test_times_stay_text_and_anchors_work(tmp_path: Path) -> None:
    text = "kind: A\nat: 2027-01-31T00:00:00Z\none: &one {a: 1}\ntwo: {<<: *one, b: 2}\n"
    (found,) = read(written(tmp_path, text))
    assert found["at"] == "2027-01-31T00:00:00Z"
    assert found["two"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: A\nkind: B\n", "'kind' is written twice"),
        ("kind: A\nspec: {a: 1, a: 2}\n", "'a' is written twice"),
        ("kind: [", "is not YAML: line 1, column 8: "),
        ("kind: !!python/object:os.system {}\n", "is not YAML"),
        ("kind: {a: 1}", "document 1 is not a Kubernetes object"),
        ("just text", "document 1 is not a Kubernetes object"),
        ("kind: A\n---\na: 1\n", "document 2 is not a Kubernetes object"),
        ("", "contains no object"),
        (b"\xff\xfe\xfa", "is not UTF-8"),
    ],
)
def test_a_document_that_is_not_a_manifest_is_named(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(CliError, match=words):
        read(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"none\.yaml cannot be read: No such file"):
        read(tmp_path / "none.yaml")
