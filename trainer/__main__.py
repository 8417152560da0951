"""`python -m trainer`: see trainer/cli/main.py."""

import os
import sys

# Read when PyTorch loads its thread pool, whose threads would otherwise spin while they wait for each other: beside
# another busy program (the site, a browser) that made rollouts on two cores seven to ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from trainer.cli.broken_pipe import until_reader_gone
from trainer.cli.main import main

sys.exit(until_reader_gone(main))
