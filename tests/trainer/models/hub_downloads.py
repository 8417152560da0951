"""The endpoints of the Hugging Face Hub that a download uses, as a local HTTP server."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c" * 40


@dataclass
class DownloadHub:
    """Repositories by id, each with its files.

    Attributes:
        gated: ids whose licence must be accepted.
        break_after: bytes of a weight file after which the connection is cut; 0: never.
        wrong: name of a file whose content differs from its digest.
        requests: paths of all files that were requested.
    """

    port: int = 0
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    break_after: int = 0
    wrong: str = ""
    requests: list[str] = field(default_factory=list)


@contextmanager
def running() -> Iterator[DownloadHub]:
    hub = DownloadHub()
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


def _handler(hub: DownloadHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                self._information("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main", parts)
            else:
                self._file("/".join(parts[:2]), parts[-1])

        def _information(self, name: str, revision: str, parts: list[str]) -> None:
            if name not in hub.repositories:
                self._answer({"error": "Repository not found"}, 404, "RepoNotFound")
            elif revision not in ("main", COMMIT):
                self._answer({"error": "Invalid rev id"}, 404, "RevisionNotFound")
            elif "tree" in parts:
                files = hub.repositories[name].items()
                self._answer([{"type": "file", "path": file, "size": len(data), "oid": "0"} for file, data in files])
            else:
                siblings = [self._sibling(file, data) for file, data in hub.repositories[name].items()]
                self._answer({"id": name, "sha": COMMIT, "siblings": siblings, "cardData": {"license": "mit"}})

        def _sibling(self, file: str, data: bytes) -> dict[str, object]:
            entry: dict[str, object] = {"rfilename": file, "size": len(data), "blobId": "0"}
            if file.endswith(".safetensors"):
                digest = hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 1}
            return entry

        def _file(self, name: str, file: str) -> None:
            hub.requests.append(f"{self.command} {file}")
            if name in hub.gated:
                self._answer({"error": "Access to this model is restricted"}, 403, "GatedRepo")
                return
            data = hub.repositories[name][file]
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
            cut = hub.break_after if file.endswith(".safetensors") else 0
            self.wfile.write(body[start : start + cut] if cut else body[start:])

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
