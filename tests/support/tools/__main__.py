"""Build tools of tests in advance: `python -m tests.support.tools helm pint`. Without names, all of them."""

import sys

from tests.support.tools.catalogue import BY_NAME

from holdfast_cli.terminal.console import error_console
from holdfast_local.progress_bar import ConsoleReport
from holdfast_local.toolchain import build_all

if __name__ == "__main__":
    chosen = [BY_NAME[name] for name in sys.argv[1:] or BY_NAME]
    for binary in build_all(chosen, ConsoleReport(error_console())):
        print(binary)
