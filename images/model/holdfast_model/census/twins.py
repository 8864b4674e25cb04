"""What groups of samples with the same bytes add up to. Pure."""

from collections.abc import Iterator
from typing import Final

from holdfast_model.census.identical import Known
from holdfast_model.census.summary import Twins

MOST_EXAMPLES: Final = 20
MOST_TWINS_NAMED: Final = 6


def add_up(found: Iterator[list[Known]]) -> Twins:
    """Count the groups, and keep the names of some."""
    within = across = conflicts = 0
    kinds: dict[str, list[tuple[str, list[str]]]] = {"across splits": [], "different labels": [], "same split": []}
    for same in found:
        splits, labels = {one.split for one in same}, {one.label for one in same}
        within += len(same) - len(splits)
        across += len(splits) > 1
        conflicts += len(labels) > 1
        kind = "across splits" if len(splits) > 1 else "different labels" if len(labels) > 1 else "same split"
        if len(kinds[kind]) < MOST_EXAMPLES:
            names = [f"{one.split + ': ' if one.split and one.file is None else ''}{one.name}" for one in same]
            kinds[kind].append((kind, sorted(names)[:MOST_TWINS_NAMED]))
    examples = [example for some in kinds.values() for example in some][:MOST_EXAMPLES]
    return Twins(within, across, conflicts, examples)
