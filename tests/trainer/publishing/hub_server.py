"""The endpoints of the Hugging Face Hub that an upload uses, as a local HTTP server that keeps what it is sent."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

TOKEN = "hf_" + "a" * 30


@dataclass
class Hub:
    """Repositories by path, such as models/ada/agent: their files, and whether they are private."""

    port: int = 0
    repositories: dict[str, bool] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    read_only: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, content: Any, status: int = 200) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            path = self.path.removeprefix("/api/").partition("/revision/")[0].partition("?")[0]
            if path not in hub.repositories:
                self._answer({"error": "Repository not found"}, 404)
                return
            private = hub.repositories[path]
            self._answer(
                {"id": path.partition("/")[2], "private": private, "siblings": [], "sha": "0" * 40, "tags": []}
            )

        def do_PUT(self) -> None:
            hub.stored[self.path.rpartition("/")[2]] = self._body()
            self._answer({})

        def do_POST(self) -> None:
            body, path = self._body(), self.path.partition("?")[0]
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._answer({"error": "Invalid credentials"}, 401)
            elif hub.read_only:
                self._answer({"error": "You have read but not write access"}, 403)
            elif path == "/api/repos/create":
                self._create(json.loads(body))
            elif path == "/api/validate-yaml":
                self._validate(json.loads(body))
            elif "/preupload/" in path:
                files = [
                    {"path": f["path"], "uploadMode": _mode(f["path"]), "shouldIgnore": False}
                    for f in json.loads(body)["files"]
                ]
                self._answer({"files": files})
            elif path.endswith("/info/lfs/objects/batch"):
                self._answer({"objects": [self._upload(entry) for entry in json.loads(body)["objects"]]})
            elif "/commit/" in path:
                self._commit(path.removeprefix("/api/").partition("/commit/")[0], body)
            else:
                self._answer({"error": f"no such endpoint: {path}"}, 404)

        def _create(self, wanted: dict[str, Any]) -> None:
            name = f"{wanted['organization']}/{wanted['name']}"
            kind = wanted.get("type") or "model"
            address = f"{hub.url}/{'datasets/' if kind == 'dataset' else ''}{name}"
            exists = f"{kind}s/{name}" in hub.repositories
            hub.repositories.setdefault(f"{kind}s/{name}", wanted.get("visibility") == "private")
            self._answer({"url": address} | ({"error": "it exists"} if exists else {}), 409 if exists else 200)

        def _validate(self, wanted: dict[str, Any]) -> None:
            _, text, _ = wanted["content"].split("---\n", 2)
            valid = isinstance(yaml.safe_load(text), dict)
            self._answer(
                {"errors": [] if valid else [{"message": "no mapping"}], "warnings": []}, 200 if valid else 400
            )

        def _upload(self, entry: dict[str, Any]) -> dict[str, Any]:
            return entry | {"actions": {"upload": {"href": f"{hub.url}/store/{entry['oid']}"}}}

        def _commit(self, repository: str, body: bytes) -> None:
            files = hub.files.setdefault(repository, {})
            for line in body.splitlines():
                entry = json.loads(line)
                match entry["key"], entry["value"]:
                    case "header", header:
                        hub.messages.append(header["summary"])
                    case "file", file:
                        files[file["path"]] = base64.b64decode(file["content"])
                    case "lfsFile", file:
                        files[file["path"]] = hub.stored[file["oid"]]
            self._answer({"commitUrl": f"{hub.url}/{repository}/commit/{'1' * 40}", "commitOid": "1" * 40})

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _mode(path: str) -> str:
    return "lfs" if path.endswith((".safetensors", ".parquet")) else "regular"
