"""The writer process of a pod with `checkpoint.folder`: puts back, watches, commits. The launcher starts it.

With several nodes each pod has one. The one of node 0 decides and commits (`lead_writer`), and the others do what it
asks (`follower`). With the argument `again` it takes the place of a writer that has ended.
"""

import os
import signal
import sys
from pathlib import Path

from holdfast_protocol import variables
from holdfast_train.environment import Environment
from holdfast_train.errors import AlreadyCompleteError, FencedError, HoldfastTrainError
from holdfast_train.folder.follower import Follower
from holdfast_train.folder.launcher import Launcher
from holdfast_train.folder.lead_writer import LeadWriter
from holdfast_train.say import say


def main() -> int:
    """The process. Its environment is that of the pod."""
    for number in (signal.SIGTERM, signal.SIGINT):  # they are for the program
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # the launcher has blocked them
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    environment = Environment.read()
    if environment is None or environment.settings.folder is None or environment.settings.checkpoint_uri is None:
        say(
            f"{variables.JOB}, and folder and checkpointUri in {variables.SETTINGS}, must be set: the launcher does "
            f"that when it starts this process"
        )
        return 78
    launcher = Launcher(out)
    root = Path(environment.settings.folder)
    kind = Follower if environment.node_rank else LeadWriter
    writer: Follower | LeadWriter = kind(environment, root, launcher)
    launcher.listen()
    beside_program = sys.argv[1:] == ["again"]
    try:
        newest = writer.prepare(beside_program=beside_program)
    except HoldfastTrainError as error:
        if beside_program and not isinstance(error, (FencedError, AlreadyCompleteError)):
            say(f"{error.reason}: {error}")
            return error.exit_code  # the launcher tries again
        code = writer.refuse(error)
        launcher.tell("fenced" if beside_program else "refused", exitCode=code)
        return code
    launcher.tell("ready", newest=newest)
    try:
        return writer.run()
    except HoldfastTrainError as error:
        code = writer.refuse(error)
        launcher.tell("fenced")
        return code


if __name__ == "__main__":
    sys.exit(main())
