"""The trainer's process: start, and the stream of its partial responses."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.journal.events import Phase
from trainer.journal.protocol import LIVE_FD
from webapp.runs.run_files import RunFiles
from webapp.worker.guarded_process import GuardedProcess

MAX_TOKEN_LINE = 64 * 1024
TOKEN_INTERVAL = 0.03


def trainer_command(files: RunFiles, processes: int = 1) -> list[str]:
    """Return the command that trains or resumes a run, with a learner and a rollout actor on each of several GPUs."""
    command = [sys.executable, "-m", "trainer", "train"]
    command += ["--config", str(files.config), "--out", str(files.folder), "--resume"]
    return [*command, "--processes", str(processes)] if processes > 1 else command


class TrainerProcess(GuardedProcess):
    """A trainer, whose partial responses and progress are forwarded. See GuardedProcess for the arguments."""

    def __init__(
        self,
        command: Sequence[str],
        files: RunFiles,
        on_tokens: Callable[[str, int, str], None],
        on_progress: Callable[[dict[str, Any]], None],
        *,
        environment: Mapping[str, str],
        file_bytes: int = 0,
    ) -> None:
        self._on_tokens, self._on_progress = on_tokens, on_progress
        read_end, write_end = os.pipe()
        try:
            super().__init__(
                command,
                files,
                environment={**environment, LIVE_FD: str(write_end)},
                file_bytes=file_bytes,
                pass_fds=(write_end,),
            )
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self._token_thread = threading.Thread(target=self._forward, args=(read_end,), name="tokens", daemon=True)
        self._token_thread.start()

    def _forward(self, pipe: int) -> None:
        """Forward the newest partial response of each trajectory and the newest phase, once per TOKEN_INTERVAL."""
        rest = b""
        with os.fdopen(pipe, "rb", buffering=0) as source:
            while data := source.read(MAX_TOKEN_LINE):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > MAX_TOKEN_LINE:
                    rest = b""
                newest: dict[str, tuple[int, str]] = {}
                phase: dict[str, Any] | None = None
                for line in lines:
                    try:
                        message = json.loads(line)
                        if "phase" in message:
                            phase = Phase.model_validate(message["phase"]).model_dump(mode="json", exclude_none=True)
                        else:
                            newest[str(message["trajectory"])] = int(message["turn"]), str(message["text"])
                    except (ValueError, KeyError, TypeError):
                        continue  # truncated by a full pipe; the next line repeats its content
                for trajectory, (turn, text) in newest.items():
                    self._on_tokens(trajectory, turn, text)
                if phase is not None:
                    self._on_progress(phase)
                time.sleep(TOKEN_INTERVAL)
