"""Command line of `bench.soak`."""

import sys

from bench.soak.soak_run import main

if __name__ == "__main__":
    sys.exit(main())
