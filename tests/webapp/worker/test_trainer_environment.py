"""Environment of a trainer: no secret of the worker, and everything that training needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.patience import SECONDS
from tests.webapp.worker.test_supervisor import INTERVALS, take
from trainer import timeouts
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker.supervisor import supervise
from webapp.worker.trainer_environment import VARIABLE, hide_own_environment, thread_limit, trainer_environment

SECRETS = {
    "DATABASE_URL": "postgresql://echoscope:password@db/echoscope",
    "REDIS_URL": "redis://:password@redis",
    "ECHOSCOPE_SECRET_KEY": "key",
    "ECHOSCOPE_METRICS_TOKEN": "token",
    "ECHOSCOPE_EMAIL_URL": "smtp://name:password@mail",
    "ECHOSCOPE_OIDC_CLIENT_SECRET": "secret",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "key",
    "PGPASSWORD": "password",
    "OPENAI_API_KEY": "sk-1",
    "OTHER_API_KEY": "sk-2",
    "WANDB_API_KEY": "wandb",
    "MLFLOW_TRACKING_PASSWORD": "mlflow",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/home/a",
    "LC_ALL": "C.UTF-8",
    "TMPDIR": "/scratch",
    "PYTHONPATH": "/site",
    "HF_HOME": "/models",
    "CUDA_HOME": "/cuda",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "NCCL_DEBUG": "WARN",
    "OMP_NUM_THREADS": "2",
    "https_proxy": "http://proxy:3128",
    "ECHOSCOPE_CACHE": "/cache",
    "ECHOSCOPE_BOXOBAN_LEVELS": "/levels",
}


def received(config: dict[str, object], **more: str) -> set[str]:
    return set(trainer_environment(config, SECRETS | NEEDED | more))


def test_no_secret_is_passed_on_and_everything_needed_is() -> None:
    assert received({}) == set(NEEDED)


def test_runs_beside_each_other_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    limits = [thread_limit(slots).get("OMP_NUM_THREADS") for slots in (1, 2, 3, 20)]
    assert limits == [None, "4", "2", "1"]


def test_a_hosted_run_receives_the_key_of_its_endpoint_only() -> None:
    hosted = {"url": "https://api.example.org/v1", "model": "m", "api_key_env": "OTHER_API_KEY"}
    assert received({"hosted": hosted}) == {*NEEDED, "OTHER_API_KEY"}
    assert received({"hosted": {**hosted, "url": ""}}) == set(NEEDED)


def test_a_run_receives_the_variables_of_its_trackers_only() -> None:
    assert received({"trackers": ["wandb", "tensorboard"]}) == {*NEEDED, "WANDB_API_KEY"}


def test_the_operator_can_name_further_variables() -> None:
    assert received({}, **{VARIABLE: "GAME_DATA, AWS_ACCESS_KEY_ID", "GAME_DATA": "/game"}) == {
        *NEEDED,
        "GAME_DATA",
        "AWS_ACCESS_KEY_ID",
    }
    with pytest.raises(ValueError, match=r"ECHOSCOPE_TRAINER_ENV must list names .* 'AWS_\*' is none"):
        received({}, **{VARIABLE: "AWS_*"})


@pytest.mark.django_db(transaction=True)
def test_the_process_of_a_run_has_none_of_the_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    write = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + '/environment.json', 'w'))"

    def command(files: RunFiles) -> list[str]:
        return [sys.executable, "-c", write, str(files.folder)]

    supervise(take(run), command=command, intervals=INTERVALS)
    variables = json.loads((run.folder / "environment.json").read_text())
    assert not variables.keys() & SECRETS.keys()
    assert not set(variables.values()) & {value for value in SECRETS.values() if len(value) > 10}
    assert variables["PATH"] == os.environ["PATH"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_that_hides_its_environment_owns_no_file_with_it() -> None:
    """The kernel gives the files in /proc to root then, so that the process's own account cannot open them."""
    code = (
        f"import os; from {hide_own_environment.__module__} import *; os.geteuid() or os.setuid(65534); "
        "hide_own_environment(); print(os.stat('/proc/self/environ').st_uid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout.strip() == "0", done.stderr


def test_trainers_of_a_site_get_the_limits_of_their_worker() -> None:
    limits = {limit.variable: "7" for limit in timeouts.TIMEOUTS}
    assert trainer_environment({}, limits | {"ECHOSCOPE_SECRET_KEY": "secret"}) == limits
