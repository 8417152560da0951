"""A run of one process neither needs nor loads Ray."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.trainer import tiny
from tests.trainer.threads import THREADS

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from pathlib import Path

class NoRay:
    def find_spec(self, name, path=None, target=None):
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError("No module named 'ray'", name="ray")

sys.meta_path.insert(0, NoRay())
from trainer.config.files import load_yaml
from trainer.loops import run_factory
from trainer.policy.load import ModelError

config, folder = load_yaml(Path(sys.argv[1])), Path(sys.argv[2])
print(run_factory.run(config, folder / "one", folder / "cache").reason)
config.cluster.rollout_actors = 2
try:
    run_factory.run(config, folder / "several", folder / "cache")
except ModelError as error:
    print(error)
"""


@pytest.mark.nightly
def test_a_run_without_ray_completes_and_one_with_actors_names_what_to_install(pocket_folder, tmp_path):
    given = tmp_path / "given.yaml"
    given.write_text(yaml.safe_dump(tiny.config(pocket_folder, iterations=1).model_dump(mode="json")))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(given), str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    completed, message = done.stdout.strip().splitlines()[-2:]
    assert completed == "completed"
    assert "needs Ray: install it (pip install '.[scale]')" in message
