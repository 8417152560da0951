"""Environments use seeded generators only: global random state is neither read nor changed."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest

import envs
from tests.envs.playable_names import PLAYABLE

ROOT = Path(envs.__file__).parent
SEEDED = {"Generator", "PCG64", "SeedSequence", "Random"}
"""Names of random and numpy.random that envs may use: none has shared state."""


def state():
    """The process-global states, comparable."""
    name, keys, *rest = np.random.get_state()
    return random.getstate(), name, keys.tolist(), rest


@pytest.mark.parametrize("name", PLAYABLE)
def test_environments_leave_global_random_state_unchanged(name):
    random.seed(1)
    np.random.seed(1)
    before = state()
    env = envs.make(name)
    first = env.reset(seed=3)
    for action in (*env.env_spec.actions[:3], "Jump"):
        *_, terminated, truncated, _ = env.step(action)
        env.hint()
        if terminated or truncated:
            env.reset()
    assert state() == before
    random.seed(2)
    np.random.seed(2)
    assert envs.make(name).reset(seed=3) == first


def global_draws(source: str) -> list[str]:
    """Names of random and numpy.random that a module uses, except generators with their own state."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [
                alias.name
                for alias in node.names
                if alias.name.split(".")[0] == "random" or "numpy.random" in alias.name
            ]
        elif isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in SEEDED]
        elif isinstance(node, ast.ImportFrom) and node.module == "numpy":
            found += [f"numpy.{alias.name}" for alias in node.names if alias.name == "random"]
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "random"
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id in ("np", "numpy")
            and node.attr not in SEEDED
        ):
            found.append(f"np.random.{node.attr}")
    return found


RESTORING = ROOT / "support" / "global_random.py"
"""It lends the global generators to packages that use them; tests/envs/support/test_global_random.py is its test."""


@pytest.mark.parametrize(
    "path", sorted({*ROOT.rglob("*.py")} - {RESTORING}), ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_module_of_envs_uses_global_randomness(path):
    assert global_draws(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import os, random as r",
        "from random import choice",
        "import numpy as np\nnp.random.seed(3)",
        "import numpy as np\nx = np.random.default_rng()",
        "from numpy import random",
        "import numpy.random as nr",
        "from numpy.random import rand",
    ],
)
def test_uses_of_global_randomness_are_detected(source):
    assert global_draws(source)


def test_seeded_generators_are_allowed():
    assert global_draws("import numpy as np\nfrom numpy.random import PCG64\nnp.random.SeedSequence(3)") == []
