"""Command line of `bench.visitors`."""

import sys

from bench.visitors.visitors_run import main

if __name__ == "__main__":
    sys.exit(main())
