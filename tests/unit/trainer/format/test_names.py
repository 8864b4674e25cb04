"""Names of checkpoints and keys: one spelling, which composes and parses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.errors import StorageInvalidError
from holdfast_train.format.names import CheckpointName, resolve

names = st.builds(
    CheckpointName,
    st.integers(0, 10**18 - 1),
    st.integers(1, 10**18 - 1),
    st.text("0123456789abcdef", min_size=1, max_size=32),
)


@given(names)
def test_a_name_survives_its_text_and_its_keys(name: CheckpointName) -> None:
    assert CheckpointName.parse(str(name)) == name
    assert resolve(f"s3://bucket/prefix/{name.manifest_key}") == ("s3://bucket/prefix", name)
    for key in (name.manifest_key, name.part_key(0, 7), name.fragment_key(3)):
        assert CheckpointName.of_key(key) == name
    assert name.part_key(1, 2).startswith(name.data_prefix)


@given(st.text() | st.from_regex(CheckpointName.FORM))
def test_only_the_spelling_of_a_name_is_parsed(text: str) -> None:
    """Breaks if two texts mean one name: one of the two would never be found in the log."""
    name = CheckpointName.parse(text)
    assert name is None or str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        "000000000100-a0-ab",
        "000000000100-a02-ab",
        "000000000100-a2-",
        "000000000100-a2-AB",
        "000000000100-a3-XYZ",
        "0000000000100-a2-ab",
        "100-a2-ab",
        "000000000100-a2-ab.json",
        "best",
        "",
    ],
)
def test_other_names(text: str) -> None:
    assert CheckpointName.parse(text) is None
    with pytest.raises(StorageInvalidError, match="is not the address of a checkpoint"):
        resolve(f"s3://bucket/prefix/manifests/{text}.json")


def test_new_names_differ() -> None:
    first, second = CheckpointName.new(5, 2), CheckpointName.new(5, 2)
    assert (first.step, first.attempt, first != second) == (5, 2, True)
    assert str(CheckpointName(100, 2, "0f")) == "000000000100-a2-0f"


def test_a_prefix_has_no_name() -> None:
    assert resolve("file:///runs/a") == ("file:///runs/a", None)
