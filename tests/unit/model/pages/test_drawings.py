"""Drawings: shares stay inside of their frame."""

import re
from xml.etree import ElementTree as ET

import pytest

from holdfast_model.pages.drawings import bar, matrix, reliability


@pytest.mark.parametrize(("share", "width"), [(0.25, "25.00"), (7.0, "100.00"), (-1.0, "0.00")])
def test_a_bar_stays_in_its_frame(share: float, width: str) -> None:
    assert f'class="done" width="{width}"' in bar(share)


# Breaks if a row without samples is divided by zero, or if rows and columns are exchanged.
def test_a_matrix_names_what_was_taken_for_what() -> None:
    drawn = matrix(["cat", "dog"], [[3, 1], [0, 0]])
    titles = [one.text for one in ET.fromstring(drawn).iter("title")]
    assert titles[:2] == ["cat taken for cat: 3 of 4 (75%)", "cat taken for dog: 1 of 4 (25%)"]
    assert titles[3] == "dog taken for dog: 0 of 0 (0%)"


def test_bins_without_predictions_are_not_drawn() -> None:
    drawn = reliability([(0, 0.0, 0.0), (10, 0.9, 0.5)])
    ET.fromstring(drawn)
    assert len(re.findall("<circle", drawn)) == 1
    assert "10 predictions (100%) with a mean confidence of 90.0%: 50.0% are right" in drawn
