"""The environments of the zoo: one for each locked file in requirements/zoo.

They lie in the user's cache, below `zoo`. An environment is made again if its locked file, or this Python, has changed.
"""

import subprocess
import sys
from pathlib import Path

from scripts import setup

REQUIREMENTS = setup.ROOT / "requirements" / "zoo"
STAMP = ".holdfast-lock"


def environment(group: str) -> Path:
    """The folder of the environment `group`, with what requirements/zoo/`group`.txt names. Made if it is not there."""
    locked = REQUIREMENTS / f"{group}.txt"
    folder = setup.cache_dir() / "zoo" / group
    wanted = setup.digest(locked)
    if (folder / STAMP).exists() and (folder / STAMP).read_text() == wanted:
        return folder
    tool, python, log = setup.uv(), folder / "bin" / "python", folder.with_suffix(".log")
    sys.stderr.write(f"Making {folder} ...\n")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        commands: tuple[list[str | Path], ...] = (
            [tool, "venv", "--allow-existing", "--python", sys.executable, folder],
            [tool, "pip", "sync", "--python", python, "--require-hashes", locked],
        )
        for command in commands:
            if subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode != 0:
                sys.exit(f"zoo: the environment {group} could not be made; {log} says why")
    (folder / STAMP).write_text(wanted)
    return folder
