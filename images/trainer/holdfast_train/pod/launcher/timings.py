"""`Timings`: how often the parts of the launcher look, and how long they wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timings:
    """In seconds. A test gives shorter ones to the part that it tests."""

    # Of `LeftRanks`: between two looks; and for the program to end by itself, after the last of its ranks. In that time
    # the operator sees the end of the pod that got SIGTERM, so it knows which node was lost.
    left_ranks_look: float = 0.5
    left_ranks_linger: float = 3.0
    signal_look: float = 0.2  # between two looks whether a signal came while a node waits for an order
    in_place_answer: float = 10.0  # for a process that goes on to have cleaned up
    keeper_look: float = 0.1  # between two looks at the memory while a program starts
    folder_writer_look: float = 0.2  # between two looks whether a signal came
    folder_writer_pause: float = 1.0  # the first one before a writer takes the place of one that has ended
    spare_look: float = 0.5  # between two looks at the program, the memory and the spare
    rank_answer: float = 3.0  # for all ranks of a training that hangs to answer,
    rank_stacks: float = 3.0  # and for one to write its stacks on a signal
    log_pause: float = 600.0  # between two times that the log is stored beside the program
    mlflow: float = 10.0  # for all answers of a server of MLflow together: the program waits for them
    mlflow_pause: float = 1.0  # before a request is sent once more


USUAL = Timings()
