"""`Timings`: how often the parts of a Run and of its writer look, and how long they wait."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timings:
    """In seconds. A test gives other ones to the part that it tests, or to a Run in its `Environment`."""

    fence_look: float = 1.0  # between two looks at the log, and between two agreements of the ranks
    fence_signal: float = 0.2  # a signal that comes just before a wait on the queue is handled only when that wait ends
    handover: float = 5.0  # after that the end of the pod shows the same
    handover_now: float = 1.0  # the same limit, after a second SIGTERM
    farewell: float = 2.0  # for the last report
    other_ranks: float = 5.0  # for which a rank that has to leave waits for the answers of other ranks
    save: float = 10.0  # for which the storage may be silent in a save during training,
    last_save: float = 600.0  # and in the last one, after which there is nothing left to train
    retry: float = 15.0  # from a failed save to the next one, or to the next try of a save that the writer keeps
    fragment: float = 120.0  # rank 0 waits this long for a rank that writes nothing, when its own part is uploaded
    orphan: float = 10.0  # if the trainer has ended, it waits twice the time of its own part, and this
    history: float = 2.0  # a commit waits this long for the history when its data is uploaded
    close: float = 5.0  # for the threads of an agreement to end, and for other ranks to come to its last meeting


USUAL = Timings()
