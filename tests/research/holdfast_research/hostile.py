"""A node of the virtual cluster that reacts to the job."""

from datetime import datetime, timedelta

from holdfast.api.profile import Tier
from holdfast_cli.simulate.durations import ZERO
from holdfast_cli.simulate.machines import Machine, Watched
from holdfast_research.economy import Market


class Hostile(Machine):
    """A node that reacts to the job: it asks a market every `gap` if it is up, and goes without notice."""

    def __init__(
        self,
        tier: Tier,
        name: str,
        market: Market,
        gap: timedelta,
        *,
        stands: bool = True,
        linger: timedelta = ZERO,
    ) -> None:
        super().__init__(tier, name, stands=stands, linger=linger)
        self._market = market
        self._gap = gap
        self._step = 0

    def begin(self, now: datetime) -> None:
        """Start the machine with the world."""
        self.turn(now, Watched(on=False, changing=0))

    def turn(self, now: datetime, watched: Watched) -> bool:
        """Ask the market."""
        up = self._market(self._step, watched)
        self._step += 1
        self.next_at = now + self._gap
        if up == self.up:
            return False
        self._rise(now) if up else self._fall()
        return True
