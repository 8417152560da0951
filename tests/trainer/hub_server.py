"""The endpoints of the Hugging Face Hub for downloads and uploads, as a local HTTP server that stores uploads."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
import yaml
from huggingface_hub import constants

from tests.local_http import serving

TOKEN = "hf_" + "a" * 30
COMMIT = "c" * 40


@dataclass
class Hub:
    """Repositories by path, such as models/ada/agent.

    Attributes:
        repositories: whether a repository is private.
        files: the content of its files by name.
        stored: uploaded large files by their digest.
        messages: of the commits.
        requests: methods and names of the files that were requested.
        gated: paths of repositories whose licence must be accepted.
        break_after: bytes of a weight file after which the connection is cut; 0: never.
        wrong: name of a file whose content differs from its digest.
        read_only: whether uploads are refused.
    """

    port: int = 0
    repositories: dict[str, bool] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    gated: set[str] = field(default_factory=set)
    break_after: int = 0
    wrong: str = ""
    read_only: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add_model(self, name: str, files: dict[str, bytes]) -> None:
        self.repositories[f"models/{name}"] = False
        self.files[f"models/{name}"] = files


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    with serving(_handler(hub)) as hub.port:
        yield hub


def use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process use the server at that address as the Hub, with large files by Git LFS."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].strip("/")
            if path.startswith("api/"):
                kind, owner, name, *rest = path.removeprefix("api/").split("/")
                self._information(f"{kind}/{owner}/{name}", rest)
            else:
                self._file("models/" + "/".join(path.split("/")[:2]), path.rpartition("/")[2])

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

        def _information(self, path: str, rest: list[str]) -> None:
            """`rest`: “revision/NAME” or “tree/NAME”, or nothing."""
            if path not in hub.repositories:
                self._answer({"error": "Repository not found"}, 404, "RepoNotFound")
                return
            files = hub.files.get(path, {})
            if rest[1:2] and rest[1] not in ("main", COMMIT):
                self._answer({"error": "Invalid rev id"}, 404, "RevisionNotFound")
            elif "tree" in rest:
                self._answer([{"type": "file", "path": f, "size": len(d), "oid": "0"} for f, d in files.items()])
            else:
                siblings = [self._sibling(file, data) for file, data in files.items()]
                content = {"id": path.partition("/")[2], "private": hub.repositories[path], "sha": COMMIT, "tags": []}
                self._answer(content | {"siblings": siblings, "cardData": {"license": "mit"}})

        def _sibling(self, file: str, data: bytes) -> dict[str, object]:
            entry: dict[str, object] = {"rfilename": file, "size": len(data), "blobId": "0"}
            if _mode(file) == "lfs":
                digest = hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 1}
            return entry

        def _file(self, path: str, file: str) -> None:
            hub.requests.append(f"{self.command} {file}")
            if path in hub.gated:
                self._answer({"error": "Access to this model is restricted"}, 403, "GatedRepo")
                return
            data = hub.files[path][file]
            body = data[:-1] + b"!" if file == hub.wrong else data
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if start else 200)
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(body) - start))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            cut = hub.break_after if _mode(file) == "lfs" else 0
            self.wfile.write(body[start : start + cut] if cut else body[start:])

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
            self._answer({"commitUrl": f"{hub.url}/{repository}/commit/{COMMIT}", "commitOid": COMMIT})

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, content: object, status: int = 200, code: str = "") -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    return Handler


def _mode(path: str) -> str:
    return "lfs" if path.endswith((".safetensors", ".parquet")) else "regular"
