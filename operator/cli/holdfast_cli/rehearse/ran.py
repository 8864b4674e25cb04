"""`Ran`: one run of a rehearsal, and the plan for one that is interrupted."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.left import Interruption, Left
from holdfast_cli.rehearse.outside import NotSaved
from holdfast_cli.rehearse.schedule import Due, Seen

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Planned:
    """An interruption, and when it is due."""

    kind: Interruption
    due: Due


@dataclass
class Ran:
    """What a run left, and its commits. `seen`: when its saves were committed, in seconds since its start.

    `not_tried`: interruptions, and why they were not. `not_saved`: of an undisturbed run. `notes`: for people.
    """

    left: Left
    seen: list[Seen]
    made: list[Made]
    not_tried: dict[Interruption, str] = field(default_factory=dict)
    not_saved: NotSaved = field(default_factory=lambda: NotSaved({}))
    notes: tuple[str, ...] = ()
