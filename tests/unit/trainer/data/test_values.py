"""Named values of a loop."""

import subprocess
import sys

import pytest

from holdfast_train.data.values import Values
from holdfast_train.errors import StateError
from holdfast_train.format.stateful import Stateful


def test_values_come_back() -> None:
    clip = Values(mean=0.0, history=[1.0])
    assert isinstance(clip, Stateful)
    clip.mean += 2.5
    clip.history.append(3.0)
    other = Values(mean=0.0, history=[])
    other.load_state_dict(clip.state_dict())
    assert (other.mean, other.history) == (2.5, [1.0, 3.0])


def test_an_unknown_name() -> None:
    clip = Values(mean=0.0, count=0)
    with pytest.raises(StateError, match=r"no value 'maen': pass it to Values\(...\)"):
        clip.maen = 1.0
    with pytest.raises(AttributeError, match="no value 'maen'; the values are 'mean', 'count'"):
        _ = clip.maen


def test_another_release_of_the_program() -> None:
    """A value that was added later stays as it is; one that was removed is ignored."""
    now = Values(mean=0.0, added=7)
    now.load_state_dict({"mean": 1.0, "removed": 2})
    assert now.state_dict() == {"mean": 1.0, "added": 7}


def test_the_public_names_need_no_other_import() -> None:
    program = "import holdfast_train as h; h.Run(clip=h.Values(mean=0.0), noise=h.Generators())"
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


@pytest.mark.parametrize("name", ["state_dict", "load_state_dict"])
def test_a_name_that_is_taken(name: str) -> None:
    with pytest.raises(StateError, match=f"{name!r} cannot be the name of a value"):
        Values(**{name: 1})
