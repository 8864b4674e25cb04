"""`python -m holdfast.runtime`: the operator's own program."""

import sys

from holdfast.runtime.command import main

if __name__ == "__main__":
    sys.exit(main())
