"""Runs JavaScript modules of the pages in Node, for tests that need no browser.

One Node process serves all tests of a test process: it reads a request per line and answers with a line.
"""

from __future__ import annotations

import json
import selectors
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest

from bootstrap.node import find
from tests.patience import SECONDS
from webapp.settings import ROOT

SERVER = """
import { createInterface } from "node:readline";

console.log = console.info = console.debug = console.error;  // standard output is for answers only
let answered = () => {};
process.on("uncaughtException", (error) => answered({ error: error?.stack ?? String(error) }));

let requests = 0;
const globals = Object.getOwnPropertyDescriptors(globalThis);

function restoreGlobals() {
    for (const name of Reflect.ownKeys(globalThis)) if (!(name in globals)) Reflect.deleteProperty(globalThis, name);
    Object.defineProperties(globalThis, globals);
}

async function answer({ address, expression, data }) {
    const module = await import(`${address}?request=${++requests}`);  // with fresh state
    const names = Object.keys(module);
    const value = await new Function("data", ...names, `return ${expression}`)(data, ...Object.values(module));
    return JSON.stringify({ value: value ?? null });
}

for await (const line of createInterface({ input: process.stdin })) {
    const text = await new Promise((resolve) => {
        answered = (failure) => resolve(JSON.stringify(failure));
        answer(JSON.parse(line)).then(resolve, (error) => answered({ error: error?.stack ?? String(error) }));
    });
    restoreGlobals();
    process.stdout.write(`${text}\\n`);
}
"""


@cache
def _server() -> subprocess.Popen[str]:
    """The running Node process, which ends with its standard input."""
    node = shutil.which("node") or str(find()[0])
    argv = [node, "--no-warnings", "--input-type=module", "--eval", SERVER]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def evaluate(module: str, expression: str, data: Any) -> Any:
    """The value of `expression`, which may use `data` and all exports of static/js/<module>.

    A promise is awaited. The module is loaded anew each time, and changes of global variables are undone.
    """
    address = (ROOT / "static" / "js" / module).as_uri()
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"address": address, "expression": expression, "data": data}) + "\n")
    server.stdin.flush()
    with selectors.DefaultSelector() as selector:
        selector.register(server.stdout, selectors.EVENT_READ)
        line = server.stdout.readline() if selector.select(SECONDS) else ""
    if not line:  # it hangs or has ended
        server.kill()
        _server.cache_clear()
        pytest.fail(f"{module}: Node did not answer to {expression}")
    answer = json.loads(line)
    if "error" in answer:
        pytest.fail(f"{module}: {answer['error']}")
    return answer["value"]
