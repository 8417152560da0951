"""Command line of `bench.pictures`."""

import sys

from bench.pictures.pictures_run import main

if __name__ == "__main__":
    sys.exit(main())
