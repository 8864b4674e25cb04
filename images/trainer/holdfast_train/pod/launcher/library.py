"""Programs of the library, in processes of their own, also where the image of the program does not have the library.

The init container copies it beside the launcher. It needs Python 3.11.
"""

from __future__ import annotations

import sys
from pathlib import Path

LIBRARY = "library"  # the folder with the library beside the launcher, if the program does not need to have it
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; sys.exit(main())"


def library_command(module: str, *arguments: str) -> list[str]:
    """The command of a process that runs `main` of a module of that library.

    -P: a file of the program may be named as a module of Python.
    """
    folder = str(Path(sys.argv[0]).resolve().parent / LIBRARY)
    return [sys.executable, "-P", "-c", _START.format(module), folder, *arguments]
