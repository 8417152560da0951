"""A server of MCP over streamable HTTP for tests, in a thread of the test process. Independent of the client.

It checks the headers that the protocol requires, and answers by JSON or by events. `trouble` makes it misbehave.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TOOLS = [
    {"name": "add", "description": "Sum of two numbers.", "inputSchema": NUMBERS},
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object"}},
    {"name": "echo", "description": "A text with line separators.", "inputSchema": {"type": "object"}},
]
VERSION = "2025-06-18"
LINES = "one\u2028two\nthree"


class HttpMcpServer:
    """State of the server.

    Args:
        events: answer by a stream of server-sent events, among notifications and requests of the server.
        sessions: require the header Mcp-Session-Id.
    """

    def __init__(self, *, events: bool = False, sessions: bool = True) -> None:
        self.events, self.sessions = events, sessions
        self.known: set[str] = set()
        self.ended: list[str] = []
        self.started = 0
        self.messages: list[dict[str, Any]] = []
        self.called_in: list[str] = []
        """Session of each call of a tool."""
        self.trouble = ""
        """How calls of tools are answered; empty = as they should be."""
        self.trouble_at = "tools/call"

    def expire(self) -> None:
        """Forget all sessions, as after a restart."""
        self.known.clear()

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, without its id."""
        match message["method"]:
            case "initialize":
                return {"result": {"protocolVersion": VERSION, "capabilities": {"tools": {}}}}
            case "tools/list":
                return {"result": {"tools": TOOLS}}
            case "tools/call":
                return self._called(**message["params"])
        return {"error": {"code": -32601, "message": f"no method {message['method']}"}}

    def _called(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name == "add":
            return {"result": {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}}
        if name == "fail":
            return {"result": {"content": [{"type": "text", "text": "it failed"}], "isError": True}}
        if name == "echo":
            return {"result": {"content": [{"type": "text", "text": LINES}]}}
        return {"error": {"code": -32602, "message": f"no tool {name}"}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mcp: HttpMcpServer

    def log_message(self, *_: Any) -> None:
        """Without lines on stderr."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.mcp.messages.append(message)
        method = message.get("method")
        assert message["jsonrpc"] == "2.0"
        assert self.headers["Accept"] == "application/json, text/event-stream"
        if self.path != "/mcp":
            return self._send(404, b"no such page", "text/plain")
        if method != "initialize":
            assert self.headers["MCP-Protocol-Version"] == VERSION
            if self.mcp.sessions and self.headers["Mcp-Session-Id"] not in self.mcp.known:
                return self._send(404, b"{}")
        if self.mcp.trouble and method == self.mcp.trouble_at:
            return self._misbehave(message)
        if "id" not in message or method is None:
            return self._send(202)
        session = {}
        if method == "tools/call":
            self.mcp.called_in.append(self.headers["Mcp-Session-Id"])
        if method == "initialize" and self.mcp.sessions:
            self.mcp.started += 1
            session = {"Mcp-Session-Id": f"session-{self.mcp.started}"}
            self.mcp.known.add(session["Mcp-Session-Id"])
        answer = {"jsonrpc": "2.0", "id": message["id"], **self.mcp.result(message)}
        if self.mcp.events:
            self._stream(answer, session, busy=method == "tools/call")
        else:
            self._send(200, json.dumps(answer).encode(), **session)
        return None

    def do_DELETE(self) -> None:
        self.mcp.ended.append(self.headers["Mcp-Session-Id"])
        self._send(204)

    def _stream(self, answer: dict[str, Any], headers: dict[str, str], *, busy: bool) -> None:
        """An answer, if busy among a notification, requests that are to be answered, and other events."""
        self._head(200, "text/event-stream; charset=utf-8", Connection="close", **headers)
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "working"}}
        text = json.dumps(answer, ensure_ascii=False).replace(', "id"', ',\n "id"')
        lines = "\r\ndata: ".join(text.split("\n"))
        parts = [
            ": a comment\n\n",
            f"id: 1\r\nevent: message\r\ndata: {json.dumps(note)}\r\n\r\n",
            f"data: {json.dumps({'jsonrpc': '2.0', 'id': 'p', 'method': 'ping'})}\n\n",
            f"data: {json.dumps({'jsonrpc': '2.0', 'id': 'r', 'method': 'roots/list'})}\n\n",
            "event: other\ndata: no JSON\n\n",
            "data\n\n",
            f"data: {lines}\r\n\r\n",
        ]
        for part in parts if busy else parts[-1:]:
            self.wfile.write(part.encode())
            self.wfile.flush()

    def _misbehave(self, message: dict[str, Any]) -> None:
        trouble = self.mcp.trouble
        if trouble.isdigit():
            error = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "the reason"}}
            return self._send(int(trouble), json.dumps(error).encode(), Location="https://elsewhere.example/mcp")
        match trouble:
            case "hangs":
                time.sleep(1.5)
                self.close_connection = True
            case "closes the connection":
                self.close_connection = True
            case "trickles":
                self._head(200, "text/event-stream", Connection="close")
                for _ in range(30):
                    self.wfile.write(b": wait\n\n")
                    time.sleep(0.05)
            case "no JSON":
                self._send(200, b"<html>")
            case "a number":
                self._send(200, b"17")
            case "no result":
                self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"]}).encode())
            case "another id":
                self._send(200, json.dumps({"jsonrpc": "2.0", "id": -1, "result": {}}).encode())
            case "a page":
                self._send(200, b"<html>", "text/html")
            case "accepted":
                self._send(202)
            case "an event without JSON":
                self._send(200, b"data: oops\n\n", "text/event-stream")
            case "too large":
                self._send(200, b'"' + b"x" * 200_000 + b'"')
            case "too large a stream":
                self._send(200, (b"data: {}\n\n" + b": " + b"x" * 1000 + b"\n\n") * 200, "text/event-stream")
            case "compressed":
                self._send(200, b"junk", **{"Content-Encoding": "gzip"})
            case "an odd session":
                self._send(200, b"{}", **{"Mcp-Session-Id": "a b"})
        return None

    def _head(self, status: int, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = headers.get("Connection") == "close"

    def _send(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        self._head(status, kind, **{"Content-Length": str(len(body))}, **headers)
        self.wfile.write(body)


@contextmanager
def serving(server: HttpMcpServer, port: int = 0) -> Iterator[str]:
    """The address of the server while it runs."""
    handler = type("Handler", (_Handler,), {"mcp": server})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/mcp"
        finally:
            http.shutdown()
