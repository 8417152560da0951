"""Log records of a run: its events, and rank, phase and iteration in every record."""

from __future__ import annotations

import logging
import os

from trainer.journal.events import CheckpointSaved, Event, Metrics, Notice, Phase, RunFinished, RunStarted

FORMAT = "%(asctime)s %(levelname)s rank %(rank)s, %(phase)s, iteration %(iteration)s: %(message)s [%(name)s]"
_log = logging.getLogger(__name__)
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class RunContext(logging.Filter):
    """Adds `rank`, `phase` and `iteration` to each record."""

    def __init__(self) -> None:
        super().__init__()
        self.phase, self.iteration = "start", 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        record.rank, record.phase, record.iteration = os.environ.get("RANK", "0"), self.phase, self.iteration
        return True


_CONTEXT = RunContext()


def configure(level: str) -> None:
    """Log the trainer's records from that level on to standard error, in FORMAT; replaces an earlier configuration."""
    logger = logging.getLogger("trainer")
    for handler in logger.handlers:
        if _CONTEXT in handler.filters:
            logger.removeHandler(handler)
    handler = logging.StreamHandler()
    handler.addFilter(_CONTEXT)
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(level.upper())


def log_event(event: Event) -> None:
    """Log one event of the journal; phases set the context of later records."""
    match event:
        case Phase():
            changed = (event.phase, event.iteration) != (_CONTEXT.phase, _CONTEXT.iteration)
            _CONTEXT.phase, _CONTEXT.iteration = event.phase, event.iteration
            if changed:
                _log.debug("phase begins")
        case Notice():
            _log.log(_LEVELS[event.level], "%s", event.message)
        case RunStarted():
            _log.info("attempt %d of %s on %s", event.attempt, event.title, event.device)
        case Metrics() if event.values and _log.isEnabledFor(logging.INFO):
            _log.info("%s", ", ".join(f"{name} {value:.4g}" for name, value in event.values.items()))
        case CheckpointSaved():
            _log.info("checkpoint %s, %d bytes", event.path, event.bytes)
        case RunFinished():
            _log.info("%s: %s", event.reason, event.message)
