"""The figures of a program as fields of status.progress.

Generated from operator/protocol/holdfast_protocol/figures.py by `make crds`. Do not edit.
"""

from holdfast.api.attempt import Number
from holdfast.api.model import Model
from holdfast.api.scalars import Step


class FigureFields(Model):
    """The newest figures of the program."""

    loss: Number | None = None
    """Newest training loss that the program reported; NaN or Inf if it is not finite. A decimal string, nan, inf or
    -inf."""
    samples_per_second: Number | None = None
    """Samples a second that the program reported. A decimal string."""
    seconds_per_step: Number | None = None
    """Seconds per step at the current pace, while the job trains. A decimal string."""
    data_wait: Number | None = None
    """Share of a step's time that the program waits for data, 0 to 1; of rank 0. A decimal string."""
    peak_memory: Step | None = None
    """Most memory of an accelerator that the program's tensors had at one time, without caches; of the rank that had
    most. In bytes."""
    save_cost: Number | None = None
    """Seconds of training that a save costs; the median of the newest ones. A decimal string."""
