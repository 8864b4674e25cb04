"""Panels get places that do not overlap."""

from itertools import combinations

import pytest
from scripts.generate.grafana import WIDTH, Dashboard, Json, Panel, Query

Box = dict[str, int]


def panel(width: int, height: int) -> Panel:
    return Panel("p", "a", "stat", (Query("up"),), "none", "none", width=width, height=height)


def places(*rows: tuple[Panel, ...]) -> list[Box]:
    made: Json = Dashboard("u", "t", "a", (), {str(number): row for number, row in enumerate(rows)}).json()
    assert len({one["id"] for one in made["panels"]}) == len(made["panels"])
    return [one["gridPos"] for one in made["panels"]]


def overlap(one: Box, other: Box) -> bool:
    across = one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"]
    return across and one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"]


# Breaks if two panels stand on the same place, or one beyond the edge.
@pytest.mark.parametrize("widths", [(12, 12, 12), (24, 6), (7, 8, 9, 10, 11), (4,) * 14])
def test_panels_stand_side_by_side(widths: tuple[int, ...]) -> None:
    row = tuple(panel(width, 4 + index % 3) for index, width in enumerate(widths))
    boxes = places(row, row[:2], row)
    assert all(box["x"] >= 0 and box["x"] + box["w"] <= WIDTH for box in boxes)
    assert not [(one, other) for one, other in combinations(boxes, 2) if overlap(one, other)]


def test_a_lower_panel_begins_below_the_highest_of_the_line() -> None:
    assert [box["y"] for box in places((panel(12, 9), panel(12, 4), panel(12, 4)))] == [0, 1, 1, 10]
