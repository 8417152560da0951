"""Stand-in for the trainer in supervisor tests: a real process with a real journal, without a model.

`python -m tests.webapp.fake_trainer SCENE FOLDER`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.webapp import journal_builder
from trainer.journal import events
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal

ITERATIONS = 4


class Actor:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop_requested = False
        signal.signal(signal.SIGTERM, self._request_stop)
        self.done = self._finished()
        earlier = folder / JOURNAL_FILE
        attempts = earlier.read_bytes().count(b'"type":"run_started"') if earlier.exists() else 0
        self.journal = Journal(folder)
        self.journal.write(journal_builder.started(attempts + 1, from_iteration=self.done))

    def _request_stop(self, number: int, frame: object) -> None:
        self.stop_requested = True

    def _finished(self) -> int:
        state = self.folder / "done.txt"
        return int(state.read_text()) if state.exists() else 0

    def checkpoint(self) -> None:
        folder = self.folder / "checkpoints" / f"{self.done:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weights").write_bytes(b"w" * self.done)
        (folder / "state.json").write_text('{"files": {}}')
        self.journal.write(events.CheckpointSaved(iteration=self.done, path=f"checkpoints/{self.done:06d}", bytes=1))
        (self.folder / "done.txt").write_text(str(self.done))

    def interrupted(self) -> None:
        self.checkpoint()
        self.journal.write(
            events.RunFinished(reason="interrupted", iteration=self.done, message=f"Stopped after {self.done}.")
        )
        sys.exit(75)

    def train(self, iterations: int, pause: float) -> None:
        """A few iterations with a checkpoint after each; a stop request takes effect after the turn."""
        while self.done < iterations:
            for event in journal_builder.iteration(self.done + 1):
                self.journal.write(event)
                time.sleep(pause)
                if self.stop_requested:
                    self.interrupted()
            self.done += 1
            self.checkpoint()
        self.journal.write(events.RunFinished(reason="completed", iteration=self.done, message="Done."))

    def stream_thoughts(self) -> None:
        """Stream tokens of watched trajectories and the progress of an update until requested to stop."""
        pipe = int(os.environ["ECHOSCOPE_LIVE_FD"])
        self.journal.write(journal_builder.group(1, 0, ["a", "b"]))
        words = 0
        while not self.stop_requested:
            watched = json.loads((self.folder / "watch.json").read_text())["trajectories"]
            words += 1
            for name in watched:
                line = {"trajectory": "a" if name == "*" else name, "turn": 0, "text": "word " * words}
                os.write(pipe, (json.dumps(line) + "\n").encode())
            phase = {"phase": "update", "iteration": 1, "done": words % 8, "total": 8, "time": time.time()}
            os.write(pipe, (json.dumps({"phase": phase}) + "\n").encode())
            time.sleep(0.05)
        self.interrupted()


def start_helpers() -> None:
    """Two processes in sessions of their own, as those of Ray are; they do not end by themselves."""
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)


def main(scene: str, folder: Path) -> None:
    if scene == "bad configuration":
        sys.stderr.write("error: policy.model: there is no folder /nowhere\n")
        sys.exit(2)
    actor = Actor(folder)
    match scene:
        case "train":
            actor.train(ITERATIONS, 0.003)
        case "long":
            actor.train(1000, 0.02)
        case "with helpers":
            start_helpers()
            actor.train(1000, 0.02)
        case "talk":
            actor.stream_thoughts()
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "crash":
            raise ValueError("the loss is not a number")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "ended":
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        case "killed once":
            if not (folder / "killed").exists():
                (folder / "killed").touch()
                actor.train(1, 0)
                os.kill(os.getpid(), signal.SIGKILL)
            actor.train(ITERATIONS, 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
