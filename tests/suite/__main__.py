"""`python -m tests.suite TARGET`: run a target of `make`."""

import sys

from bootstrap.commands import run
from tests.suite.targets import TARGETS

if __name__ == "__main__":
    sys.exit(run(TARGETS, sys.argv[1:]))
