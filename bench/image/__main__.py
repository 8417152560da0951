"""Command line of `bench.image`."""

import sys

from bench.image.image_run import main

if __name__ == "__main__":
    sys.exit(main())
