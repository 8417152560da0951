"""Known vulnerabilities of the locked packages, by pip-audit and npm audit: `make audit`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bootstrap import node
from bootstrap.packages import LOG, PYTHON, ROOT
from bootstrap.progress import SetupError, run, step

PIP_AUDIT = "pip-audit==2.10.1"
TOOLS = ROOT / "var" / "audit-tools"
LOCKS = ("requirements/run.txt", "requirements/dev.txt", "requirements/adapters.txt", "requirements/vllm.txt")
FOUND = 1
UNAVAILABLE = 69
"""Exit code if an advisory service does not answer (EX_UNAVAILABLE): nothing is known then."""


@dataclass
class Result:
    """Outcome for one lock file: vulnerabilities in words, or the reason why there is no outcome."""

    lock: str
    found: list[str] = field(default_factory=list)
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.lock}: not audited. {self.problem}"
        return "\n".join(
            [f"{self.lock}: {len(self.found) or 'no'} known vulnerabilities", *map("  {}".format, self.found)]
        )


def audit(arguments: Sequence[str]) -> int:
    """Audit all lock files. Further `arguments` are passed to pip-audit, such as `--ignore-vuln ID`.

    Returns:
        0 without known vulnerabilities, FOUND with any, else UNAVAILABLE if a lock file could not be audited.
    """
    _ensure_pip_audit()
    results = [python_packages(lock, arguments) for lock in LOCKS] + [npm_packages()]
    print("", *results, sep="\n")
    return exit_code(results)


def exit_code(results: Sequence[Result]) -> int:
    if any(result.found for result in results):
        return FOUND
    return UNAVAILABLE if any(result.problem for result in results) else 0


def pip_audit_argv(lock: str, arguments: Sequence[str]) -> list[str]:
    """Every version is in the lock file, so nothing is resolved or installed."""
    fixed = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json", "--desc", "off"]
    services = [] if "--vulnerability-service" in arguments else ["--vulnerability-service", "osv"]
    return [str(TOOLS / "bin" / "pip-audit"), *fixed, *services, *arguments, "--requirement", lock]


def python_packages(lock: str, arguments: Sequence[str]) -> Result:
    """Ask OSV, the database of PyPI's and other advisories, about every package of a lock file."""
    with step(f"Auditing {lock}"):
        done = subprocess.run(pip_audit_argv(lock, arguments), cwd=ROOT, capture_output=True, text=True)
    return parse_pip_audit(lock, done.stdout, done.stderr)


def parse_pip_audit(lock: str, output: str, errors: str) -> Result:
    """Result from pip-audit's JSON; it prints none if the service fails, with the same exit code as for findings."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, LookupError):
        return Result(lock, problem=_unavailable("the advisory service (api.osv.dev)", errors))
    found = [(package, one) for package in packages for one in package.get("vulns", [])]
    return Result(lock, [_python_words(package, one) for package, one in found])


def _python_words(package: dict[str, Any], one: dict[str, Any]) -> str:
    fixed = ", ".join(one["fix_versions"]) or "no version"
    return f"{package['name']} {package['version']}: {one['id']}, fixed in {fixed}"


def npm_packages() -> Result:
    """Ask the npm registry about every package of package-lock.json."""
    path, npm = node.find()
    argv = [*npm, "audit", "--json", "--package-lock-only", "--audit=true", "--fetch-retries=1"]
    variables = {**os.environ, "PATH": f"{path.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    with step("Auditing package-lock.json"):
        done = subprocess.run(argv, cwd=ROOT, env=variables, capture_output=True, text=True)
    return parse_npm_audit(done.stdout, done.stderr)


def parse_npm_audit(output: str, errors: str) -> Result:
    lock = "package-lock.json"
    try:
        data: dict[str, Any] = json.loads(output)
    except ValueError:
        data = {}
    if "vulnerabilities" not in data:
        return Result(lock, problem=_unavailable("the npm registry", data.get("message") or errors))
    return Result(lock, [_npm_words(name, entry) for name, entry in data["vulnerabilities"].items()])


def _npm_words(name: str, entry: dict[str, Any]) -> str:
    vias = [f"{via['title']} ({via['range']})" if isinstance(via, dict) else f"through {via}" for via in entry["via"]]
    return f"{name}: {entry['severity']}, {'; '.join(vias)}"


def _unavailable(service: str, errors: str) -> str:
    last = errors.strip().splitlines()[-1:] or ["no message"]
    return (
        f"There was no answer from {service}: check the network, or set HTTPS_PROXY. This is no finding about the "
        f"packages.\n  {last[0][:200]}"
    )


def _ensure_pip_audit() -> None:
    """Install pip-audit into an environment of its own. Raises SetupError."""
    if (TOOLS / "bin" / "pip-audit").exists():
        return
    with step(f"Installing {PIP_AUDIT}") as line:
        code, output = run([str(PYTHON), "-m", "venv", str(TOOLS)], LOG, line)
        if not code:
            code, output = run([str(TOOLS / "bin" / "python"), "-m", "pip", "install", "-q", PIP_AUDIT], LOG, line)
    if code:
        raise SetupError(
            f"{PIP_AUDIT} could not be installed: check the network. Nothing was audited.\n{output[-400:]}"
        )
