"""The example job for Slurm, with programs in place of Slurm's that run everything on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.trainer.cluster.selection import on_request
from trainer.journal.reader import read

SCRIPT = Path(__file__).parents[3] / "docs/examples/slurm/run.sbatch"
RUN = {
    "iterations": 1,
    "cluster.rollout_actors": 1,
    "policy.threads": 1,
    "rollout.groups": 2,
    "rollout.group_size": 2,
    "rollout.max_turns": 1,
    "rollout.max_response_tokens": 8,
    "evaluation.prompts": 2,
    "evaluation.every": 0,
}
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do
    if [[ $1 == --nodelist || $1 == --exclude ]]; then shift; fi
    shift
done
[[ $1 == hostname ]] && echo 127.0.0.1 && exit
exec "$@"
"""


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def job_environment(folder: Path) -> dict[str, str]:
    """Variables of a job on one node, with programs in place of Slurm's in the folder `bin`."""
    programs = folder / "bin"
    programs.mkdir()
    program(programs, "srun", SRUN)
    program(programs, "scontrol", "#!/bin/bash\necho node1\n")
    return os.environ | {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "node1",
        "SLURM_JOB_NUM_NODES": "1",
    }


def test_a_head_that_does_not_start_ends_the_job(tmp_path: Path) -> None:
    environment = job_environment(tmp_path)
    program(tmp_path / "bin", "ray", '#!/bin/bash\necho "ray $1: the port is taken"\nexit 1\n')
    job = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=600)
    assert job.returncode == 1
    assert "ray start: the port is taken" in job.stdout
    assert "The head of Ray did not start on node1" in job.stderr
    assert "ray status: the port is taken" in job.stderr
    assert not list(tmp_path.glob(".echoscope-ray-*"))


@on_request
def test_the_job_starts_a_cluster_trains_and_leaves_no_token(tmp_path: Path) -> None:
    changes = [word for name, value in RUN.items() for word in ("--set", f"{name}={value}")]
    environment = job_environment(tmp_path) | {"SLURM_CPUS_PER_TASK": "2", "OMP_NUM_THREADS": "1"}
    out = tmp_path / "run"
    job = ["bash", str(SCRIPT), "--preset", "sokoban-starpo_s-pocket", "--out", str(out), *changes]
    with subprocess.Popen(
        job, env=environment, cwd=SCRIPT.parents[3], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        try:
            output, _ = running.communicate(timeout=600)
        finally:
            subprocess.run(["ray", "stop", "--force"], env=environment, capture_output=True)
    assert running.returncode == 0, output
    assert next(event for event in read(out / "journal.jsonl") if event.type == "run_finished").reason == "completed"
    assert not list(tmp_path.glob(".echoscope-ray-*"))
