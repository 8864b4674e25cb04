"""Kubeconfig files are looked for where kubectl looks for them, and what is wrong with one is said in words."""

from pathlib import Path

import pytest

from holdfast.runtime.apiserver.kubeconfig import candidates, existing, read
from holdfast.runtime.errors import NoClusterError


def test_the_given_file_wins_over_the_variable_and_that_over_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert candidates() == [tmp_path / ".kube/config"]
    monkeypatch.setenv("KUBECONFIG", "/a:/b:")
    assert candidates() == [Path("/a"), Path("/b")]
    assert candidates(Path("/c")) == [Path("/c")]


def test_files_that_do_not_exist_are_left_out_unless_all_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, gone = tmp_path / "good", tmp_path / "gone"
    good.write_text("current-context: x\n")
    monkeypatch.setenv("KUBECONFIG", f"{gone}:{good}")
    assert existing() == [good]
    empty = tmp_path / "empty"
    empty.touch()
    monkeypatch.setenv("KUBECONFIG", f"{empty}:{good}")
    assert existing() == [good]
    monkeypatch.setenv("KUBECONFIG", f"{gone}:{tmp_path}/none")
    with pytest.raises(NoClusterError, match=f"there is no kubeconfig at {gone} or {tmp_path}/none; give --kubeconfig"):
        existing()


# Breaks if a file that is not YAML, or not a mapping, reaches the client library, which fails with a traceback.
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [", "config cannot be read: while parsing"),
        (b"\xff\xfe\x00", "config cannot be read: "),
        (b"text", "contains a str; it must be a mapping with clusters, contexts and users"),
        (b"", r"there is no kubeconfig at \S+/config \(\S+/config: empty\); give --kubeconfig FILE"),
        (b"# nothing yet\n", "config: empty"),
    ],
)
def test_a_file_with_other_content_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)
    with pytest.raises(NoClusterError, match=words) as refused:
        existing(file)
    assert "\n" not in str(refused.value)
    with pytest.raises(NoClusterError, match=r"cannot be read: .*No such file"):
        read(tmp_path / "none")
