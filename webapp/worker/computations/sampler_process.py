"""The child process that answers questions: `python -m trainer sampler FOLDER`, with JSON lines on pipes."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from trainer.journal.branches import Answer, Cancel, Question
from webapp.ingest.limits import MAX_LINE_BYTES
from webapp.runs.run_files import RunFiles
from webapp.worker.computations.computation_start import end, failure_text
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.guarded_process import GuardedProcess

BLOCK = 1 << 18
SEND_SECONDS = 10.0
_Answer: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="type")])

Command = Callable[[RunFiles, int], Sequence[str]]
"""Returns the command for a folder and the iteration of a checkpoint."""


def sampler_command(files: RunFiles, checkpoint: int) -> list[str]:
    """Return the command that loads weights and answers questions."""
    command = [sys.executable, "-m", "trainer", "sampler", str(files.folder)]
    return [*command, "--checkpoint", str(checkpoint), "--device", "cpu"]


class SamplerProcess(GuardedProcess):
    """A sampler process with its pipes, of whose answers nothing is trusted."""

    def __init__(
        self, command: Sequence[str], files: RunFiles, *, environment: dict[str, str], file_bytes: int
    ) -> None:
        super().__init__(command, files, environment=environment, file_bytes=file_bytes, piped=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._rest = b""
        for pipe in (self._input, self._output):
            os.set_blocking(pipe, False)

    def send(self, message: Question | Cancel) -> None:
        """Send a line. Raises ComputationFailed if the process does not read it."""
        line = memoryview(message.model_dump_json().encode() + b"\n")
        deadline = time.monotonic() + SEND_SECONDS
        try:
            while line:
                if not select.select([], [self._input], [], max(0.0, deadline - time.monotonic()))[1]:
                    raise ComputationFailed("The policy's process does not read questions.")
                line = line[os.write(self._input, line) :]
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self, seconds: float) -> list[Answer]:
        """Return the answers that arrive within some seconds; they may be none.

        Raises:
            ComputationFailed: the process has ended, or does not follow the protocol.
        """
        if not select.select([self._output], [], [], seconds)[0]:
            return []
        block = os.read(self._output, BLOCK)
        if not block:
            raise self._ended()
        *lines, self._rest = (self._rest + block).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise ComputationFailed("The policy's process wrote a line that is too long.")
        try:
            return [_Answer.validate_json(line) for line in lines]
        except ValidationError as error:
            first = error.errors()[0]
            raise ComputationFailed(f"The answer of the policy's process is not valid: {first['msg']}.") from None

    def close(self) -> None:
        """End the process."""
        end(self)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _ended(self) -> ComputationFailed:
        deadline = time.monotonic() + 2.0
        while (status := self.exit_status()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if status is None:
            return ComputationFailed("The policy's process closed its output.")
        return ComputationFailed(failure_text(status, self.log_tail()))
