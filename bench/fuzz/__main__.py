"""Command line of `bench.fuzz`."""

import sys

from bench.fuzz.fuzz_run import main

if __name__ == "__main__":
    sys.exit(main())
