"""Stand-in for `python -m trainer models fetch` in tests: a real process that writes to the real store.

`python -m tests.webapp.worker.downloads.scripted_fetch SCENE NAME`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime

from trainer.models import store

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def report(done: int) -> None:
    print(json.dumps({"stage": "download", "done": done, "total": 100}), flush=True)


def main(scene: str, name: str) -> None:
    """Install the model; or stop in the middle, fail, or be killed."""
    if scene == "fails":
        print(json.dumps({"error": f"{name} cannot be fetched: the disk is full, free 1 GB"}), flush=True)
        sys.exit(1)
    with store.staging(name) as partial:
        (partial / store.DOWNLOAD).mkdir(exist_ok=True)
        (partial / store.DOWNLOAD / "weights").write_bytes(b"w" * 40)
        report(40)
        if scene == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        while scene == "hangs":
            time.sleep(0.05)
        folder = partial / store.MODEL
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(CONFIG))
        record = store.ModelRecord(name=name, source="a test", licence="MIT", added=datetime.now(UTC))
        store.write_record(folder, record)
        report(100)


if __name__ == "__main__":
    main(*sys.argv[1:])
