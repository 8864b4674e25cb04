"""`SpikeRule`: which losses are far above those before them.

A loss is far above if it exceeds the median of the window by more than `deviations` times the median absolute
deviation, which is scaled by 1.4826 to that of a normal distribution. Median and deviation hardly move if a few losses
are wild, and mean and variance do: C. Leys et al., Detecting outliers: Do not use standard deviation around the mean,
use absolute deviation around the median, Journal of Experimental Social Psychology 49 (2013).

If more than half of the losses are equal, as those of a margin loss that is 0 for most batches, the median deviation
is 0. Then the mean absolute deviation counts, scaled by 1.2533.
"""

import math
from collections import deque
from statistics import median
from typing import Final

from holdfast_protocol.settings import Spike

NORMAL: Final = 1.4826
MEAN_NORMAL: Final = 1.2533  # as NORMAL, for a mean
LEAST: Final = 0.01  # of the median: losses that hardly differ have no deviation, and each change would be a spike
RENEWED: Final = 8  # looks at the window while it is filled once: a look sorts it twice


class SpikeRule:
    """Takes one finite loss after the other, and knows how many in a row were far above the window.

    The window has losses that were not far above. Until it is full, no loss is.
    """

    def __init__(self, spike: Spike) -> None:
        self.in_a_row = 0
        self.limit: float | None = None  # a loss above this is far above
        self._spike = spike
        self._window: deque[float] = deque(maxlen=spike.window)
        self._fresh = 0

    def take(self, loss: float) -> bool:
        """True if this is the last of so many losses in a row that are far above."""
        if self.limit is not None and loss > self.limit:
            self.in_a_row += 1
            return self.in_a_row >= self._spike.steps
        self.in_a_row = 0
        self._window.append(loss)
        self._fresh += 1
        if len(self._window) == self._spike.window and (
            self.limit is None or self._fresh * RENEWED >= self._spike.window
        ):
            self._fresh = 0
            middle = median(self._window)
            apart = [abs(one - middle) for one in self._window]
            deviation = NORMAL * median(apart) or MEAN_NORMAL * sum(apart) / len(apart)
            least = max(deviation, LEAST * abs(middle))
            self.limit = middle + self._spike.deviations * (least or math.inf)  # all are 0: no scale is known
        return False
