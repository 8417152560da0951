"""The two wheels in fresh environments: what an installation and its extras bring, and that documented commands run.

An environment has a wheel and, as links, the packages that its metadata asks for and theirs, so no index is needed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
RECORD = """
import echoscope
run = echoscope.init("Wordle with GRPO", config={"lr": 1e-6}, folder="run", iterations=1)
for attempt in run.group(2, environment="Wordle", prompt="Guess the word.", iteration=1, seed=1):
    with attempt:
        attempt.turn(state="_____", response="CRANE", reward=0.2)
        attempt.finish(success=False)
run.log({"reward/mean": 0.2}, iteration=1)
run.finish()
"""
RECORDER, TRAINER = "echoscope", "echoscope-trainer"
FOLDERS = {RECORDER: "echoscope", TRAINER: "."}
CHAT = {"messages": [{"role": "user", "content": "Guess the word."}, {"role": "assistant", "content": "CRANE"}]}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built from a copy of the files in the repository, new ones before their commit included."""
    folder = tmp_path_factory.mktemp("wheels")
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(list_files, cwd=ROOT, capture_output=True, check=True).stdout
    copied = ("envs/", "trainer/", "echoscope/", "pyproject.toml", "README.md", "LICENSE")
    for name in filter(None, listed.decode().split("\0")):
        if name.startswith(copied) and (ROOT / name).exists():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    built = {}
    for distribution, source in FOLDERS.items():
        out = folder / distribution
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
        command = [sys.executable, "-m", "pip", "wheel", *options, str(folder / "source" / source)]
        subprocess.run(command, check=True)
        (built[distribution],) = out.glob("*.whl")
    return built


def required(requirements: list[str] | None, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Names and extras of the requirements that apply here."""
    for text in requirements or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def closure(name: str, wheel: Path, extras: frozenset[str]) -> set[str]:
    """Names of all packages that the wheel of that distribution asks for with these extras, and theirs."""
    with zipfile.ZipFile(wheel) as archive:
        about = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        own = metadata.PathDistribution(zipfile.Path(archive, about.removesuffix("METADATA")))
        waiting = [(name, extras)]
        seen: set[tuple[str, frozenset[str]]] = set()
        while waiting:
            package, wanted = waiting.pop()
            if (package, wanted) in seen:
                continue
            seen.add((package, wanted))
            distribution = own if package == name else metadata.distribution(package)
            waiting += required(distribution.requires, wanted)
    return {package for package, _ in seen} - {name}


class Environment:
    """A virtual environment with the wheel and what it asks for."""

    def __init__(self, folder: Path, name: str, wheel: Path, *extras: str) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder = folder
        self.packages = closure(name, wheel, frozenset(extras))
        site = next(folder.glob("lib/python*/site-packages"))
        for package in self.packages:
            for file in metadata.files(package) or []:
                if file.parts[0] in ("..", "__pycache__"):
                    continue
                link = site / file.parts[0]
                if not link.exists():
                    link.symlink_to(Path(str(metadata.distribution(package).locate_file(file.parts[0]))))
        install = ["--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps", "--no-index"]
        install += ["--no-compile"]  # each environment runs few of its modules
        subprocess.run([sys.executable, "-m", "pip", *install, str(wheel)], check=True)

    def run(self, *command: str, cwd: Path) -> str:
        """What a program of the environment prints; nothing is seen of the repository and its environment."""
        done = self.attempt(*command, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """The same for a program that may fail."""
        program = str(self.folder / "bin" / command[0])
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        clean |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(cwd / "cache")}
        return subprocess.run([program, *command[1:]], cwd=cwd, env=clean, capture_output=True, text=True)


@pytest.mark.parametrize(("name", "packages"), [(RECORDER, {"echoscope"}), (TRAINER, {"envs", "trainer"})])
def test_a_wheel_holds_its_packages_and_links_to_addresses_only(
    wheels: dict[str, Path], name: str, packages: set[str]
) -> None:
    with zipfile.ZipFile(wheels[name]) as archive:
        names = archive.namelist()
        about = next(name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        described = archive.read(f"{about}/METADATA").decode()
    assert {name.split("/")[0] for name in names} - {about} == packages
    modules = {str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")}
    own = {module for module in modules if not module.startswith("echoscope/build/")}
    assert {name for name in names if name.endswith(".py")} == own
    assert f"{about}/licenses/LICENSE" in names
    links = [line for line in described.splitlines() if line.startswith("Project-URL:")]
    assert [line for line in links if ", https://" not in line] == [], "PyPI refuses them"


def test_both_distributions_have_one_version_and_one_license() -> None:
    recorder, trainer = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for folder in (FOLDERS[RECORDER], FOLDERS[TRAINER])
    )
    assert recorder["version"] == trainer["version"]
    assert recorder["dependencies"] == trainer["dependencies"]
    for extra in ("envs", "train"):
        assert recorder["optional-dependencies"][extra] == [f"{TRAINER}[{extra}]=={trainer['version']}"]
        assert extra in trainer["optional-dependencies"]
    assert (ROOT / "echoscope" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_plain_install_records_runs_and_imports_chats(wheels: dict[str, Path], tmp_path: Path) -> None:
    plain = Environment(tmp_path / "plain", RECORDER, wheels[RECORDER])
    assert not plain.packages & {"numpy", "torch", "django", "transformers", "gymnasium"}
    plain.run("python", "-c", RECORD, cwd=tmp_path)
    kinds = [json.loads(line)["type"] for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert kinds.count("turn") == 2
    (tmp_path / "chats.jsonl").write_text(json.dumps(CHAT) + "\n", encoding="utf-8")
    plain.run("echoscope", "import", "--help", cwd=tmp_path)
    plain.run("echoscope", "import", "chats.jsonl", "--out", "imported", cwd=tmp_path)
    assert "CRANE" in (tmp_path / "imported" / "journal.jsonl").read_text(encoding="utf-8")
    for package in ("trainer", "envs"):
        assert plain.attempt("python", "-c", f"import {package}", cwd=tmp_path).returncode == 1
    described = (ROOT / "echoscope" / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", described, re.DOTALL)
    plain.run("python", "-c", shown, cwd=tmp_path)
    assert "CRANE" in (tmp_path / "runs" / "wordle" / "journal.jsonl").read_text(encoding="utf-8")


def test_the_trainer_without_its_extra_names_it(wheels: dict[str, Path], tmp_path: Path) -> None:
    bare = Environment(tmp_path / "bare", TRAINER, wheels[TRAINER])
    missing = bare.attempt("python", "-m", "trainer", "train", "--preset", "bandit-starpo-pocket", cwd=tmp_path)
    assert missing.returncode == 1
    assert "not installed; the trainer needs: pip install '.[train]' in its repository" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_the_environments_play_without_torch(wheels: dict[str, Path], tmp_path: Path) -> None:
    alone = Environment(tmp_path / "alone", TRAINER, wheels[TRAINER], "envs")
    assert not alone.packages & {"torch", "django", "transformers"}
    play = "import envs; env = envs.make('Sokoban'); print(env.reset(seed=1))"
    assert "#" in alone.run("python", "-c", play, cwd=tmp_path)


@pytest.mark.nightly
def test_the_trainer_trains_without_the_site(wheels: dict[str, Path], tmp_path: Path) -> None:
    training = Environment(tmp_path / "training", TRAINER, wheels[TRAINER], "train")
    assert "torch" in training.packages
    assert "django" not in training.packages
    changes = ("iterations=1", "rollout.groups=1", "rollout.group_size=2", "evaluation.prompts=0", "policy.threads=1")
    options = [word for change in changes for word in ("--set", change)]
    command = ("python", "-m", "trainer", "train", "--preset", "bandit-starpo-pocket", *options, "--out", "run")
    assert "1 iteration" in training.run(*command, cwd=tmp_path)
