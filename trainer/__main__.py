"""`python -m trainer`: see trainer/cli/main.py."""

import os
import sys

# Read when PyTorch loads its thread pool. Otherwise its threads spin while they wait for each other: next to another
# busy program (the site, a browser) that made rollouts on two cores seven to ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

try:
    from trainer.cli.broken_pipe import until_reader_gone
    from trainer.cli.main import main
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] in ("envs", "trainer"):
        raise  # of this package itself, which no installation would bring
    sys.exit(f"error: {missing.name} is not installed; the trainer needs: pip install '.[train]' in its repository")

sys.exit(until_reader_gone(main))
