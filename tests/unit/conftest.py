"""What all unit tests have in common."""

import os

# Before anything imports torch. Models of unit tests are tiny: threads of torch would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
