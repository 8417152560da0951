"""Real trainers in the sandbox: everything that a run needs is open to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tests.trainer import tiny
from tests.webapp.worker.test_supervisor import INTERVALS, fresh, take
from trainer.config.run import POCKET
from webapp.runs.models import Run
from webapp.worker.sandbox import landlock
from webapp.worker.supervisor import supervise
from webapp.worker.trainer_process import trainer_command

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock"),
]


@pytest.fixture
def sandboxed(run: Run, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("ECHOSCOPE_CACHE", "HF_HOME", "XDG_CACHE_HOME", "ECHOSCOPE_TRAINER_SANDBOX"):
        monkeypatch.delenv(name, raising=False)
    return run


def train(run: Run, **sections: Any) -> str:
    """The outcome of a run of seconds with the real trainer."""
    Run.objects.filter(pk=run.pk).update(config=tiny.config(POCKET, **sections).model_dump(mode="json"))
    return supervise(take(fresh(run)), command=trainer_command, intervals=INTERVALS)


def test_a_run_with_adapters_is_trained_and_resumed(sandboxed: Run) -> None:
    """Torch, the pocket policy, checkpoints, a second start from one, and the processes of an environment."""
    sections = {"lora": {"rank": 4}, "environment": {"name": "ToolPython"}, "rollout": {"max_actions_per_turn": 1}}
    for iterations in (1, 2):
        Run.objects.filter(pk=sandboxed.pk).update(state=Run.State.QUEUED)
        assert train(sandboxed, **sections, iterations=iterations) == "finished", fresh(sandboxed).log_tail
    run = fresh(sandboxed)
    assert (run.iteration, run.checkpoints.count()) == (2, 2)
    assert "Permission denied" not in (run.folder / "log.txt").read_text()


TOOL = """
import sys
import envs
env = envs.make("ToolPython")
env.reset(seed=1)
call = env.task.calls[0]
print([tool.run(**call.arguments).strip() == env.task.answer for tool in env.make_tools()])
"""


def test_the_interpreter_of_the_python_tool_runs_in_the_sandbox(sandboxed: Run) -> None:
    supervise(take(sandboxed), command=lambda files: [sys.executable, "-c", TOOL], intervals=INTERVALS)
    assert (fresh(sandboxed).folder / "log.txt").read_text() == "[True]\n"
