"""Runs JavaScript modules of the pages in Node, for tests that need no browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from bootstrap.node import find
from tests.patience import SECONDS
from webapp.settings import ROOT


def evaluate(module: str, expression: str, data: Any) -> Any:
    """The value of `expression`, which may use `data` and all exports of static/js/<module>.

    A promise is awaited.
    """
    node = shutil.which("node") or str(find()[0])
    address = json.dumps((ROOT / "static" / "js" / module).as_uri())
    code = f"""
        import * as module from {address};
        let text = "";
        for await (const part of process.stdin) text += part;
        const data = JSON.parse(text);
        const value = await new Function("data", ...Object.keys(module), {json.dumps("return " + expression)})(
            data, ...Object.values(module));
        process.stdout.write(JSON.stringify(value ?? null));
    """
    done = subprocess.run(
        [node, "--no-warnings", "--input-type=module", "--eval", code],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        pytest.fail(f"{module}: {done.stderr}")
    return json.loads(done.stdout)
