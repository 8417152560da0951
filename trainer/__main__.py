"""`python -m trainer`: see cli.py."""

import os
import sys

# Read when PyTorch loads its thread pool. Its threads would otherwise spin while they wait for each other: beside any
# other busy program (the site, a browser) that made rollouts on two cores seven to ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from trainer.cli.main import main

sys.exit(main())
