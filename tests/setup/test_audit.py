"""`make audit`: findings, no findings and a service that does not answer have different exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bootstrap import audit
from bootstrap.audit import FOUND, UNAVAILABLE, Result, exit_code, npm_packages, parse_pip_audit, pip_audit_argv
from webapp.services.addresses import ROOT, free_port

OUTPUT = json.dumps(
    {
        "dependencies": [
            {"name": "absl-py", "version": "2.5.1", "vulns": []},
            {
                "name": "anyio",
                "version": "4.16.0",
                "vulns": [{"id": "PYSEC-1", "fix_versions": ["4.17"], "aliases": []}],
            },
            {"name": "local", "skip_reason": "not on PyPI"},
        ],
        "fixes": [],
    }
)
"""As pip-audit 2.10 prints it."""


class Advisories(BaseHTTPRequestHandler):
    """npm's advisory service with one advisory, about uPlot."""

    advisory = {"id": 1, "url": "https://example.org/1", "title": "Draws too much", "severity": "high"}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        data = json.dumps({"uplot": [self.advisory | {"vulnerable_versions": "<99"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


def test_npm_reports_an_advisory_about_a_locked_package(registry: None) -> None:
    result = npm_packages()
    assert result == Result("package-lock.json", ["uplot: high, Draws too much (<99)"])
    assert exit_code([result]) == FOUND


def test_a_registry_that_does_not_answer_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{free_port()}")
    result = npm_packages()
    assert result.found == []
    assert "no answer from the npm registry" in str(result)
    assert "ECONNREFUSED" in str(result)
    assert exit_code([result]) == UNAVAILABLE


def test_findings_of_pip_audit_name_package_advisory_and_fix() -> None:
    result = parse_pip_audit("requirements/dev.txt", OUTPUT, "Found 1 known vulnerability in 1 package")
    assert str(result).endswith("1 known vulnerabilities\n  anyio 4.16.0: PYSEC-1, fixed in 4.17")
    silent = parse_pip_audit("requirements/dev.txt", "", "requests.exceptions.ConnectionError: refused")
    assert "no answer from the advisory service" in silent.problem
    assert exit_code([silent, result]) == FOUND
    assert exit_code([silent, Result("package-lock.json")]) == UNAVAILABLE
    assert exit_code([Result("package-lock.json")]) == 0


def test_pip_audit_reads_all_lock_files_and_installs_nothing() -> None:
    argv = pip_audit_argv("requirements/dev.txt", ["--ignore-vuln", "PYSEC-1"])
    assert {"--no-deps", "--disable-pip"} <= set(argv)
    assert argv[-4:] == ["--ignore-vuln", "PYSEC-1", "--requirement", "requirements/dev.txt"]
    written = {f"requirements/{path.name}" for path in Path(ROOT / "requirements").glob("*.txt")}
    assert set(audit.LOCKS) == written
