"""What a comparison has found: of figures, of files, and of the places in files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from holdfast_cli.rehearse.compare.difference import Difference

NEAR: Final = 4.0  # times the difference of the undisturbed runs: up to here a difference is as large as their own


class Standing(StrEnum):
    """What the rehearsed run has at a place, compared with the two undisturbed runs."""

    EQUAL = "equal"
    NOISE = "own noise"  # the two undisturbed runs differ there too
    DIFFERS = "differs"
    MISSING = "missing"  # both undisturbed runs have it
    EXTRA = "extra"  # only the rehearsed run has it
    NOT_COMPARED = "not compared"  # it cannot be read, or is beyond the limits
    NOTED = "noted"  # it is not equal for a harmless reason, such as an older save that was deleted


WRONG: Final = (Standing.DIFFERS, Standing.MISSING)


class Kind(StrEnum):
    """What is at a place."""

    WEIGHT = "weight"  # a tensor of floats
    TENSOR = "tensor"  # another tensor, such as the state of a random generator
    NUMBER = "number"
    OTHER = "other"  # a text, bytes


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file where the rehearsed run is not equal to the reference.

    `first` and `second`: what the reference and the rehearsed run have there, short. `noise`: how much the undisturbed
    runs differ there, None if they do not.
    """

    place: str
    standing: Standing
    kind: Kind
    first: str = ""
    second: str = ""
    amount: Difference | None = None
    noise: Difference | None = None

    @property
    def is_near(self) -> bool:
        """True if it is own noise, and no larger than a few times that of the undisturbed runs."""
        is_within = self.amount is None or self.noise is None or self.amount.is_within(self.noise, NEAR)
        return self.standing is Standing.NOISE and is_within


@dataclass(frozen=True, slots=True)
class File:
    """A file, or the newest checkpoint of a store.

    `equal`: how many values of each kind are equal. `weights`: tensors of floats that all three have; in
    `noisy_weights` of them the two undisturbed runs differ, and `weight_noise` is the largest `scaled` difference of
    these. `places`: where it is not equal, as far as `more` does not count them. `is_state`: a program may resume from
    it. `repeated`: rows that a log has more. `size` in bytes.
    """

    path: str
    standing: Standing
    form: str = ""
    size: int = 0
    is_state: bool = False
    is_newest: bool = False
    equal: Mapping[Kind, int] = field(default_factory=dict)
    places: tuple[Spot, ...] = ()
    more: int = 0
    weights: int = 0
    noisy_weights: int = 0
    weight_noise: float = 0.0
    repeated: int = 0
    note: str = ""

    def having(self, *standings: Standing) -> tuple[Spot, ...]:
        """The places with one of these standings."""
        return tuple(place for place in self.places if place.standing in standings)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of all steps, such as the loss.

    `steps`: how many steps all three runs have it at; `wrong`: those at which it is not equal, with the values in the
    reference and in the rehearsed run. `before`: for each of these the step of the report before it, 0 if there is
    none; `nearest`: how many steps the nearest other report is away, 0 if there is none. `last_equal`: the last step
    before `wrong`. `final`: as one of `wrong`, of the last step that both have. `missing`: steps that only
    the rehearsed run lacks; `extra`: steps that only it has. `absolute` and `relative`: the largest difference; `noise`
    and `relative_noise`: that of the undisturbed runs, which first differ at `first_noise`. `is_measured`: it is a
    time, a rate or an amount of memory, which differs in any two runs.
    """

    name: str
    standing: Standing
    steps: int = 0
    last_equal: int | None = None
    final: tuple[int, float, float] | None = None
    missing: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    absolute: float = 0.0
    relative: float = 0.0
    noise: float = 0.0
    relative_noise: float = 0.0
    first_noise: int | None = None
    is_measured: bool = False
    wrong: tuple[tuple[int, float, float], ...] = ()
    before: tuple[int, ...] = ()
    nearest: tuple[int, ...] = ()

    @property
    def first(self) -> tuple[int, float, float] | None:
        """The first of `wrong`; None if it is equal."""
        return self.wrong[0] if self.wrong else None

    @property
    def is_near(self) -> bool:
        """True if it is own noise, and no larger than a few times that of the undisturbed runs."""
        return self.standing is Standing.NOISE and self.absolute <= NEAR * self.noise and not self.missing
