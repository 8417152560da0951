"""Environments without the trainer: no torch, no Django, no other dependency of trainer and site."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.patience import SECONDS

ROOT = Path(__file__).parents[2]
PLAY = """
    import sys

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in BLOCKED:
                raise ModuleNotFoundError(f"{name} is not here", name=name)

    sys.meta_path.insert(0, Refuse())
    import envs
    from envs.registry import BUILT_IN
    for name in BUILT_IN:
        env = envs.make(name)
        env.reset(seed=1)
        for _ in range(5):
            hint = env.hint()
            action = hint.actions[0] if hint and hint.actions else "Up"
            _, _, terminated, truncated, _ = env.step(action)
            env.board(), env.render()
            if terminated or truncated:
                break
    from envs.sandbox.client import Sandbox
    sandbox = Sandbox("WebShop")
    sandbox.make().reset(seed=1)
    sandbox.close()
    print(len(BUILT_IN), "played")
"""
BLOCKED = {
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "django",
    "celery",
    "channels",
    "channels_redis",
    "psycopg",
    "redis",
    "yaml",
    "uvicorn",
    "whitenoise",
    "trainer",
    "webapp",
    "bootstrap",
}


def test_every_environment_works_without_other_packages() -> None:
    code = f"BLOCKED = {BLOCKED!r}\nif True:{PLAY}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert re.fullmatch(r"\d+ played\n", done.stdout), done.stderr


def test_an_install_of_the_environments_requires_none_of_these_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["envs"]
    names = {re.split(r"[\[<>=; ]", requirement)[0].replace("-", "_") for requirement in requirements}
    assert {"numpy", "gymnasium", "pydantic"} <= names
    assert not names & BLOCKED


def test_importing_envs_loads_neither_numba_nor_the_search_engine() -> None:
    code = "import envs, sys; print(sorted({'numba', 'bm25s', 'rapidfuzz', 'scipy'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout == "[]\n", done.stderr
