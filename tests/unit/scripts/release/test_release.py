"""What a release refuses, and the workflow that makes one."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from scripts.images.build import Built
from scripts.images.errors import BuildError
from scripts.images.source import Source
from scripts.release import __main__ as command
from scripts.release.chart import CHART, VALUES, with_digests
from scripts.release.folder import make_release
from scripts.release.notes import changes
from scripts.release.provenance import Made
from scripts.setup import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yaml"
OPERATOR = Built("registry.test/a/operator:2.0.0", Path("operator.tar"), f"sha256:{'1' * 64}", {}, {})
INIT = Built("registry.test/a/init:2.0.0", Path("init.tar"), f"sha256:{'2' * 64}", {}, {})


# Breaks if a release is made of files that no commit has: nobody could make it again.
def test_files_that_are_not_committed_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "read_source", lambda: Source("0.1.0", "c" * 40, 0, list("abcdefg")))
    assert command.main([]) == 1
    assert "not committed, so nobody could make this release again: a, b, c, d, e and 2 more" in capsys.readouterr().err


# Breaks if a chart is packaged whose image nobody built.
def test_a_release_without_an_image_of_the_chart_is_refused(tmp_path: Path) -> None:
    made = Made("python:3.12-slim", "3.12", ("amd64",), "https://holdfast.test", "https://builder.test")
    with pytest.raises(BuildError, match="needs the image init"):
        make_release({"operator": OPERATOR}, made, Source("0.1.0", "c" * 40, 0, []), tmp_path)
    assert list(tmp_path.iterdir()) == []


# Breaks if that is found after the images were built, which takes minutes.
@pytest.mark.parametrize(
    ("version", "words"),
    [("0.1.0", "needs the image init"), ("9.9.9", "no heading `## 9.9.9`")],
    ids=["image", "notes"],
)
def test_what_a_release_lacks_is_said_before_anything_is_built(
    version: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "read_source", lambda: Source(version, "c" * 40, 0, []))
    monkeypatch.setenv("PATH", "")  # no builder
    assert command.main(["operator", *(["init"] if version == "9.9.9" else [])]) == 1
    assert words in capsys.readouterr().err


# Breaks if values.yaml has another form than the packaging looks for: digests then were silently left out.
def test_the_values_name_the_digests_and_keep_their_comments() -> None:
    before = (CHART / VALUES).read_text(encoding="utf-8")
    text = with_digests(before, OPERATOR, INIT).decode()
    values = yaml.safe_load(text)
    assert values["image"]["repository"] == "registry.test/a/operator"
    assert values["image"]["digest"] == OPERATOR.digest
    assert values["initImage"] == f"{INIT.name}@{INIT.digest}"
    assert text.count("#") == before.count("#")
    with pytest.raises(BuildError, match=r"0 lines are like .*initImage"):
        with_digests(before.replace("initImage", "image2"), OPERATOR, INIT)


# Breaks if the notes have the changes of another version, or of none.
def test_the_notes_have_the_changes_of_the_version() -> None:
    log = "# Changelog\n\n## 0.2.0 (2026-12-01)\n\nNew.\n\n### Jobs\n\n- One.\n\n## 0.1.0\n\nOld.\n"
    assert changes("0.2.0", log) == "New.\n\n### Jobs\n\n- One."
    assert changes("0.1.0", log) == "Old."
    with pytest.raises(BuildError, match=r"no heading `## 0\.3\.0`"):
        changes("0.3.0", log)


# Breaks if the workflow has an option that `make release` does not know, or an action that can change under its tag.
def test_the_workflow_makes_a_release_with_options_that_there_are() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["release"]["steps"]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    script = next(step["run"] for step in steps if "make release" in step.get("run", ""))
    arguments = " ".join(re.findall(r'arguments\+?="([^"]*)"', script))
    (images,) = set(re.findall(r'ARGS="(.*) \$arguments"', script))
    options = command.release_parser().parse_args(shlex.split(f"{images} {arguments}"))
    assert options.names == ["operator", "init", "trainer"]
    assert options.arch == ["amd64", "arm64"]
    assert options.by.endswith("$GITHUB_WORKFLOW_REF")
