"""What the probes do now, while they run."""

from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text


class Teller:
    """Shows what each probe does: a live picture on a terminal, otherwise a line for each new phase."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._live = Live(console=out, auto_refresh=False, transient=True) if out.is_terminal else None
        self._states: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def tell(self, name: str, state: str) -> None:
        """The probe `name` is in `state`, such as `Running, step 12/60`."""
        before, self._states[name] = self._states.get(name), state
        if state == before:
            return
        if self._live:
            lines = "\n".join(f"{probe}: {text}" for probe, text in self._states.items())
            self._live.update(Text(lines), refresh=True)
        elif before is None or before.partition(",")[0] != state.partition(",")[0]:
            self._out.print(Text(f"{name}: {state}"))
