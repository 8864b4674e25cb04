"""The files in which the ranks of a program on several nodes tell the launcher how they have imported their modules.

The launcher makes a process that imports the same, for the next attempt in this pod: `launcher/warm/told.py` reads the
files.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

from holdfast_protocol import variables
from holdfast_train.environment import Environment
from holdfast_train.pod.launcher.warm.program_needs import environment_of
from holdfast_train.pod.launcher.warm.told import FILE
from holdfast_train.say import say

CORES: Final = "Cpus_allowed:"


def tell_modules(environment: Environment) -> None:
    """Write the file of this rank, completely or not at all. With one node nothing is written.

    The modules are in the order of their imports.
    """
    if environment.nodes == 1 or environment.verdict_folder is None:
        return
    path = Path(environment.verdict_folder, FILE.format(os.environ.get("LOCAL_RANK", "0")))
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        before = environment_of(os.getpid())
        after = dict(os.environb)
        content = {
            "pid": os.getpid(),
            "files": {name: _file_of(module) for name, module in list(sys.modules.items())},
            "changed": [
                os.fsdecode(name)
                for name in sorted(before.keys() | after.keys())
                if before.get(name) != after.get(name) and not name.startswith(variables.PREFIX.encode())
            ],
            "moved": _cores("self") != _cores(str(os.getppid())),
        }
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        say(f"the launcher is not told what this program has imported: {error}")


def _file_of(module: object) -> str:
    """The file of a module, empty if it has none. A module that loads its content later does not do so here."""
    found = getattr(module, "__dict__", {}).get("__file__")
    return found if isinstance(found, str) else ""


def _cores(process: str) -> str:
    """The processor cores on which the main thread of a process may run."""
    lines = Path("/proc", process, "status").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(CORES))
