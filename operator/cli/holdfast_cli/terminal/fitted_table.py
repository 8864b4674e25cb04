"""A table that fits the screen: if it is too narrow, the least important columns are left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from holdfast_cli.terminal import formats

GAP = 2  # blanks between two columns
LOOSE = 12  # characters to which a loose column may be cut


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its title may have several lines. `rank` 0 always stays; the highest rank is left out first.

    The cells of a `loose` column are cut if there is no room.
    """

    title: str
    rank: int = 0
    right: bool = False
    loose: bool = False


class Fitting:
    """Rows of one-line cells, in as many columns as fit. Empty columns are left out before others."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
        self.columns = tuple(columns)
        self.rows = tuple(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich."""
        yield self._table(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Called by rich. Without it rich takes the full width and fills lines with blanks."""
        return Measurement.get(console, options, self._table(options.max_width))

    def chosen(self, width: int) -> list[int]:
        """The indices of the columns that fit into `width` characters, left to right."""
        kept = list(range(len(self.columns)))
        optional = [place for place in kept if self.columns[place].rank]
        for place in sorted(optional, key=lambda at: (self._empty(at), self.columns[at].rank), reverse=True):
            if self._total(kept) <= width:
                break
            kept.remove(place)
        return kept

    def _table(self, width: int) -> Table:
        kept = self.chosen(width)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for place in kept:
            column = self.columns[place]
            table.add_column(column.title, justify="right" if column.right else "left", no_wrap=not column.loose)
        for row in self.rows:
            table.add_row(*(_one_line(row[place]) for place in kept))
        return table

    def _total(self, kept: Sequence[int]) -> int:
        return sum(self._width(place) for place in kept) + GAP * (len(kept) - 1)

    def _width(self, place: int) -> int:
        column = self.columns[place]
        widest = max((row[place].cell_len for row in self.rows), default=0)
        title = max(map(len, column.title.splitlines()))
        return max(title, min(widest, LOOSE) if column.loose else widest)

    def _empty(self, place: int) -> bool:
        return all(row[place].plain in ("", formats.NOTHING) for row in self.rows)


def _one_line(cell: Text) -> Text:
    """The cell on one line: cut, not wrapped, also in a loose column."""
    line = cell.copy()
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
