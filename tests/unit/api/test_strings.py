"""Strings with a fixed form. Borders that the API server judges too are in the integration tests."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.api import strings


def fits(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (strings.Label, ["a", "a-1", "1", "a" * 63], ["", "A", "-a", "a-", "a.b", "a" * 64, "a\n", 1, None]),
        (strings.ObjectName, ["a", "a.b-c", "a" * 253], ["", ".a", "a..b", "a_b", "a" * 254]),
        (strings.DataKey, ["ca.crt", "_A-b"], ["", "a b", "a/b"]),
        (strings.EnvName, ["A", "_a.b-c"], ["", "1A", "A=B", "Ä"]),
        (strings.EnvPrefix, ["", "A_"], ["1", "A B"]),
        (strings.Image, ["x", "registry.example:5000/a/b@sha256:0", "Not/Valid:!"], ["", "a b", "a\n"]),
        (strings.AbsolutePath, ["/", "/a", "/a/.b/c-d"], ["", "a", "/a/", "//a", "/a/../b", "/./a", "/a b"]),
        (strings.MountPath, ["/a", "/data/x.y"], ["/", "a", "/a/"]),
        (strings.RelativePath, ["a", "a/b", ".a/b=c"], ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a b"]),
        (strings.Bucket, ["abc", "a.b-c"], ["ab", "A_b", "a..b", "-abc", "a" * 64]),
        (
            strings.Endpoint,
            ["http://a", "https://a.b:9000", "http://[::1]:9000/x"],
            ["", "a", "ftp://a", "http://", "http://u:p@a", "http://a?b", "http://a#b", "http://a b", "http://a:port"],
        ),
        (strings.Region, ["us-east-1", "auto"], ["", "US", "a b"]),
        (
            strings.CheckpointAddress,
            ["s3://runs/a/b", "file:///a/b"],
            ["", "Auto", "s3://runs", "file://a", "http://a", "s3://runs/../a"],
        ),
        (
            strings.PodField,
            ["metadata.name", "metadata.labels['a/b']", "status.podIPs", "spec.nodeName"],
            ["", "spec.containers", "metadata", "metadata.labels", "status.podIP.x"],
        ),
        (strings.ResourceName, ["nvidia.com/gpu", "huawei.com/Ascend910B"], ["gpu", "/gpu", "a/", "a/b/c"]),
        (strings.LabelKey, ["a", "a.b/C_d", "A"], ["", "/a", "A.b/c/d", "a b"]),
        (strings.LabelValue, ["", "A_b.c"], ["-", "a b", "a" * 64]),
        (strings.AnyText, ["", "x\ny\x00ü"], ["x" * 4097, 1, None, b"x"]),
    ],
)
def test_forms(kind: Any, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not fits(kind, value)] == []
    assert [value for value in bad if fits(kind, value)] == []


def test_a_refusal_says_in_words_what_is_allowed() -> None:
    with pytest.raises(ValidationError, match=r'"A": must be .*DNS label.*, of 1 to 63 characters'):
        TypeAdapter(strings.Label).validate_python("A")


# Breaks if a pattern comes to the launcher that it cannot read.
@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("tqdm", True),
        ("lightning", True),
        ("step {step}/{total}*loss={loss}", True),
        ('{{"step": {step}}}', True),
        ("{grad_norm}", True),
        ("[{epoch}/{epochs}] [{epoch_step}/{epoch_steps}]", True),
        ("{epoch_from_1}", True),
        ("{epoch_from_0}", False),
        ("{bar_step}", False),
        ("step", False),
        ("", False),
        ("{steps}", False),
        ("{step", False),
        ("{step}{total}", False),
        ("{step}\n", False),
        ("{step}" + "x" * 251, False),
    ],
)
def test_a_pattern_of_progress_has_a_place_for_a_number(text: str, is_allowed: bool) -> None:
    found = TypeAdapter(strings.ProgressPattern)
    if is_allowed:
        assert found.validate_python(text) == text
        return
    with pytest.raises(ValidationError, match="a line such as"):
        found.validate_python(text)
