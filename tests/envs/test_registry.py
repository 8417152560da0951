"""Registry of environments: built-in ones, installed packages, Gymnasium."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from pydantic import ValidationError

import envs
from envs import registry
from envs.adapters.packages import ADAPTERS
from envs.base import EnvSettings

PLUGIN = '''
from envs.base import EnvSpec, TextBoard, TextEnv

class Echo(TextEnv):
    """Repeats the action."""

    def __init__(self, settings=None, **overrides):
        super().__init__(settings, **overrides)
        self.env_spec = EnvSpec(name="Echo", title="Echo", summary="It repeats.", instruction="Say it.", vocabulary={},
                             actions=(), max_turns=1, max_actions_per_turn=1, max_actions=1, success="Always.")

    def render(self):
        return "?"

    def board(self):
        return TextBoard(text="?")
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Temporarily install a package with the given entry points."""

    def install(**offers: str) -> None:
        record = tmp_path / "echo_world-1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-world\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in offers.items()]
        (record / "entry_points.txt").write_text("\n".join(["[echoscope.envs]", *lines]) + "\n")
        (tmp_path / "echo_world.py").write_text(PLUGIN)
        monkeypatch.syspath_prepend(tmp_path)
        registry._plugins.cache_clear()

    yield install
    monkeypatch.undo()
    sys.modules.pop("echo_world", None)
    registry._plugins.cache_clear()


def test_the_built_in_environments_are_registered():
    assert {"Sokoban", "FrozenLake", "Bandit"} <= set(envs.names())
    for name in envs.names():
        assert issubclass(envs.settings_model(name), EnvSettings)
        assert envs.spec(name).name == name
        if not envs.needs_variant(name):
            assert envs.make(name).env_spec.name == name


def test_an_unknown_name_is_refused_with_the_choices():
    for lookup in (envs.make, envs.spec, envs.settings_model):
        with pytest.raises(ValueError, match=r"unknown environment 'Chess'; choose one of Sokoban, .*FrozenLake"):
            lookup("Chess")


def test_settings_are_checked():
    assert envs.make("Sokoban", {"size": 8}).settings.size == 8
    with pytest.raises(ValidationError, match="size"):
        envs.make("Sokoban", {"size": 2})
    with pytest.raises(ValidationError, match="colour"):
        envs.make("Sokoban", {"colour": "red"})


def test_an_entry_point_registers_an_environment(installed):
    installed(Echo="echo_world:Echo")
    assert envs.names()[-1] == "Echo"
    assert envs.spec("Echo").instruction == "Say it."
    assert envs.make("Echo").render() == "?"


@pytest.mark.parametrize(
    ("offers", "reason"),
    [
        ({"Broken": "echo_world:Missing"}, r"'Broken' \(echo_world:Missing\) of echo-world .*AttributeError"),
        ({"Broken": "no_such_module:X"}, r"'Broken' .*ModuleNotFoundError"),
        ({"Broken": "json:loads"}, r"'Broken' .* not a subclass"),
        ({"Sokoban": "echo_world:Echo"}, r"'Sokoban' .* exists already"),
        ({"TextArena": "echo_world:Echo"}, r"'TextArena' .* exists already"),
    ],
)
def test_an_unusable_entry_point_is_skipped_with_a_warning(installed, offers, reason):
    installed(**offers, Echo="echo_world:Echo")
    with pytest.warns(RuntimeWarning, match=reason):
        assert [name for name in envs.names() if name not in ADAPTERS] == [*registry.BUILT_IN, "Echo"]
    assert type(envs.make("Sokoban")).__name__ == "Sokoban"


def test_gymnasium_makes_them_with_settings():
    env = gymnasium.make("echoscope/Sokoban-v0", settings={"size": 7})
    text, _ = env.reset(seed=1)
    assert len(text.split("\n")) == 7
    assert env.unwrapped.env_spec.name == "Sokoban"
    with pytest.raises(ValueError, match="'ansi'"):
        gymnasium.make("echoscope/Sokoban-v0", render_mode="human")


def test_environments_load_without_torch_and_django():
    code = (
        "import envs, sys; "
        "[envs.make(name).reset(seed=0) for name in envs.names() if not envs.needs_variant(name)]; "
        "print([name for name in ('torch', 'django') if name in sys.modules])"
    )
    root = Path(registry.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_guide_names_every_environment() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    for name in registry.BUILT_IN:
        assert f"`{name}`" in guide, name


def test_the_guides_example_runs() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    exec(compile(example, "docs/environments.md", "exec"), {})
