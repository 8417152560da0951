"""A small MCP server for tests: `python stdio_server.py MODE`. Independent of the client and of the example server."""

import json
import os
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
TOOLS = [
    {
        "name": "add",
        "description": "Sum of two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "picture", "title": "A picture.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "process", "description": "Number of the process.", "inputSchema": {"type": "object"}},
    {"name": "wait", "description": "Waits.", "inputSchema": {"type": "object"}},
    {"name": "end", "description": "Ends the server.", "inputSchema": {"type": "object"}},
]
if MODE == "odd name":
    TOOLS.append({"name": "no spaces please", "inputSchema": {"type": "object"}})


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def call(name, arguments):
    if name == "add":
        return text(str(arguments["a"] + arguments["b"]))
    if name == "fail":
        return text("it failed", isError=True)
    if name == "picture":
        return {"content": [{"type": "image", "data": "", "mimeType": "image/png"}, {"type": "text", "text": "a cat"}]}
    if name == "process":
        return {"content": [], "structuredContent": {"process": os.getpid()}}
    if name == "wait":
        time.sleep(60)
    if name == "end":
        sys.exit(3)
    return None


def page(cursor):
    """The tools in pages of two, as large servers list them."""
    start = int(cursor or 0)
    more = {"nextCursor": str(start + 2)} if start + 2 < len(TOOLS) else {}
    return {"tools": TOOLS[start : start + 2], **more}


for line in sys.stdin:
    message = json.loads(line)
    number, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        sys.stdout.write("starting up\n")  # some servers print what is no message
        capabilities = {} if MODE == "no tools" else {"tools": {"listChanged": True}}
        send({"id": number, "result": {"protocolVersion": "2025-06-18", "capabilities": capabilities}})
    elif method == "notifications/initialized":
        send({"method": "notifications/message", "params": {"level": "info", "data": "ready"}})
        send({"id": "s1", "method": "ping"})
        send({"id": "s2", "method": "roots/list"})
    elif method == "tools/list":
        send({"id": number, "result": page(params.get("cursor"))})
    elif method == "tools/call" and (result := call(params["name"], params["arguments"])) is not None:
        send({"id": number, "result": result})
    elif method:
        send({"id": number, "error": {"code": -32602, "message": f"no tool {params.get('name')}"}})
