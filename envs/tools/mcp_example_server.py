"""Example of an MCP server over stdio: prices of a small shop. `python -m envs.tools.mcp_example_server` starts it.

The environment ToolMCP uses it unless another command is set. It imports only the standard library.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

PROTOCOL = "2025-06-18"
PRICES = {
    "anchor": 48,
    "basket": 9,
    "bell": 14,
    "blanket": 27,
    "candle": 3,
    "compass": 31,
    "hammer": 17,
    "kettle": 22,
    "ladder": 39,
    "lamp": 12,
    "mirror": 26,
    "paddle": 19,
    "rope": 7,
    "tent": 85,
    "whistle": 4,
}
"""Item → price in coins."""
ITEM = {
    "type": "object",
    "properties": {"item": {"type": "string", "description": "Name of an item, in the singular."}},
    "required": ["item"],
}
TOOLS = [
    {"name": "price", "description": "Price of an item in coins.", "inputSchema": ITEM},
    {"name": "items", "description": "Names of all items.", "inputSchema": {"type": "object", "properties": {}}},
]


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call."""
    if name == "items":
        return _result(", ".join(PRICES))
    item = str(arguments.get("item", "")).strip().lower()
    if name == "price" and item in PRICES:
        return _result(str(PRICES[item]))
    return _result(f"there is no {item!r}: items() lists what there is", failed=True)


def _result(text: str, *, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request; None for a notification."""
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if number is None:
        return None
    results: dict[str, Callable[[], dict[str, Any]]] = {
        "initialize": lambda: {
            "protocolVersion": PROTOCOL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echoscope-example", "version": "1"},
        },
        "ping": dict,
        "tools/list": lambda: {"tools": TOOLS},
        "tools/call": lambda: call(str(params.get("name")), params.get("arguments") or {}),
    }
    if not isinstance(method, str) or method not in results:
        return {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": f"no method {method}"}}
    return {"jsonrpc": "2.0", "id": number, "result": results[method]()}


def main() -> None:
    """Answer requests until the input closes."""
    for line in sys.stdin:
        if line.strip() and (reply := answer(json.loads(line))) is not None:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
