"""The thread of a worker that carries out requests of one kind, one at a time.

They are not Celery tasks because runs may take all places of a worker for hours. Any worker that has the run's files,
or gets them from storage, may carry a request out.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Generic, TypeVar

from django.conf import settings
from django.db import close_old_connections, connection

from webapp.core.database import DATABASE_UNAVAILABLE
from webapp.runs import worker_requests
from webapp.runs.models import Run, Worker, WorkerRequest
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker.computations import attempt_folder
from webapp.worker.computations.attempt_folder import Weights
from webapp.worker.computations.job_ends import ComputationFailed, ComputationWithdrawn, WorkerStops

logger = logging.getLogger(__name__)

IDLE_SECONDS, REPORT_SECONDS = 2.0, 2.0
ELSEWHERE_SECONDS = 30.0
"""Until a worker looks again for the files of a run that it lacks: a look into storage takes time."""
STOP_SECONDS = 10.0

R = TypeVar("R", bound=WorkerRequest)


class RequestLoop(Generic[R]):
    """The thread of one worker for requests of one kind."""

    NAME = ""
    """What the requests are, for the log."""
    FOLDER = ""
    """Folder in the data folder, with a folder for each computation."""

    def __init__(self, worker: str, pace: float = 1.0) -> None:
        """`worker` is its name; `pace` is a factor of the idle interval, for tests."""
        self.worker_name, self.pace = worker, pace
        self.root = UntrustedFolder(Path(settings.ECHOSCOPE_DATA_DIR) / self.FOLDER)
        self._elsewhere: dict[int, float] = {}  # by run, when its files were not found here
        self._reported = 0.0
        self.end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.NAME.lower(), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; its computation is queued again."""
        self.end.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    # -- what each kind of requests defines ----------------------------------------------------------------------------

    def clean(self) -> None:
        """Delete what lost workers left; called once."""
        raise NotImplementedError

    def waiting(self) -> list[R]:
        """Return the requests without a live worker, the oldest first."""
        raise NotImplementedError

    def weights_of(self, request: R) -> tuple[Run, int]:
        """Return the run of the wanted weights, and their finished iterations."""
        raise NotImplementedError

    def carry_out(self, request: R, worker: Worker, weights: Weights) -> None:
        """Compute and store the result. Raises ComputationFailed, ComputationWithdrawn, WorkerStops."""
        raise NotImplementedError

    def rest(self) -> None:
        """Wait until there may be another request."""
        self.end.wait(IDLE_SECONDS * self.pace)

    def close(self) -> None:
        """Release what the thread holds; called at its end."""

    def keep_alive(self, request: R) -> None:
        """Report that the worker is alive. Raises WorkerStops, ComputationWithdrawn."""
        if self.end.is_set():
            raise WorkerStops
        if time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        if not worker_requests.do_report(request):
            raise ComputationWithdrawn

    # ------------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        step = self.clean
        try:
            while not self.end.is_set():
                try:
                    step()
                    step = self._step
                except DATABASE_UNAVAILABLE as error:
                    logger.warning("%s: the database does not answer (%s).", self.NAME, str(error).strip())
                    connection.close()
                except Exception:  # one failed round must not end all later ones
                    logger.exception("%s: a round failed; they continue with the next one.", self.NAME)
                close_old_connections()
                self.rest()
        finally:
            self.close()
            connection.close()

    def _step(self) -> None:
        """Carry out the waiting requests for which this worker has the files."""
        rows = self.waiting()
        worker = Worker.objects.filter(name=self.worker_name).first() if rows else None
        if worker is None:  # nothing to do, or before its first heartbeat
            return
        for row in rows:
            found = self._find(row, worker)
            if found is not None and worker_requests.do_claim(row, worker):
                self._finish(row, worker, found)
                if self.end.is_set():
                    return

    def _find(self, request: R, worker: Worker) -> Weights | ComputationFailed | None:
        """Return the weights to compute with, or why there are none; None if another worker may have the files."""
        (run, iteration), now = self.weights_of(request), time.monotonic()
        if now - self._elsewhere.get(run.pk, -ELSEWHERE_SECONDS) < ELSEWHERE_SECONDS * self.pace:
            return None
        try:
            weights = attempt_folder.find_weights(run, iteration)
        except ComputationFailed as error:
            return error
        if weights is None and run.data_folder and run.data_folder == worker.data_folder:
            return ComputationFailed(f"The files of this run are no longer on worker {worker.name}.")
        if weights is None:
            self._elsewhere[run.pk] = now
        return weights

    def _finish(self, request: R, worker: Worker, found: Weights | ComputationFailed) -> None:
        """Carry a request out, and record its failure."""
        try:
            if isinstance(found, ComputationFailed):
                raise found
            self.carry_out(request, worker, found)
        except ComputationFailed as error:
            logger.warning("%s: %s failed: %s", self.NAME, request, error)
            worker_requests.do_fail(request, str(error))
        except ComputationWithdrawn:
            logger.info("%s: %s was withdrawn.", self.NAME, request)
        except WorkerStops:
            worker_requests.do_give_back(request)
        except Exception:
            worker_requests.do_fail(request, "Internal worker error; see the log of the worker.")
            raise
