"""What a machine must have for real nodes.

`python -m tests.support.real_node.needs` says what is missing, and ends with exit code 69 if something is.
"""

import shutil
import sys
from pathlib import Path

from holdfast_local.errors import ConfigError
from holdfast_local.network import links

PLUGINS = Path("/usr/lib/cni")
MISSING = 69  # exit code: EX_UNAVAILABLE of sysexits.h

# The package of Debian that has each program.
_PROGRAMS = {
    "runc": "runc",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}


def missing() -> list[str]:
    """What this machine and user lack, in words; empty if real nodes can be started."""
    found = []
    try:
        links.check_possible()
    except ConfigError as error:
        found.append(str(error))
    found += [
        f"the program {name} (package {package})" for name, package in _PROGRAMS.items() if not shutil.which(name)
    ]
    if not (PLUGINS / "bridge").exists():
        found.append(f"the network plugins in {PLUGINS} (package containernetworking-plugins)")
    return found


if __name__ == "__main__":
    if lacking := missing():
        print("Real nodes cannot run here. Missing:", *(f"- {one}" for one in lacking), sep="\n", file=sys.stderr)
        sys.exit(MISSING)
