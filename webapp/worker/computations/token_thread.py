"""Computations of tokens, in a thread of the worker."""

from __future__ import annotations

from trainer.journal.token_arrays import TokenArraysError
from webapp.core.database import database_now
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.trajectories import token_computation
from webapp.trajectories.models import TokenComputation
from webapp.worker.computations import attempt_folder, token_process
from webapp.worker.computations.attempt_folder import Weights
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.computations.request_loop import RequestLoop
from webapp.worker.computations.token_process import Command, token_command


class TokenComputations(RequestLoop[TokenComputation]):
    """The thread of one worker."""

    NAME, FOLDER = "Token computations", "token-jobs"

    def __init__(self, worker: str, command: Command = token_command, pace: float = 1.0) -> None:
        super().__init__(worker, pace)
        self._command = command

    def clean(self) -> None:
        """Delete the folders that lost workers left."""
        pending = TokenComputation.objects.filter(state__in=TokenComputation.PENDING)
        wanted = set(pending.values_list("trajectory__slug", flat=True))
        for name in self.root.folders():
            if name not in wanted:
                self.root.remove(name)

    def waiting(self) -> list[TokenComputation]:
        return list(token_computation.waiting_computations(database_now()))

    def weights_of(self, request: TokenComputation) -> tuple[Run, int]:
        return request.trajectory.run, token_computation.sampled_after(request.trajectory)

    def carry_out(self, request: TokenComputation, worker: Worker, weights: Weights) -> None:
        attempt = request.trajectory
        self.root.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.remove(attempt.slug)
        self.root.make_folder(attempt.slug)
        files = RunFiles(self.root.path_to(attempt.slug))

        def keep_alive() -> None:
            self.keep_alive(request)

        try:
            attempt_folder.prepare(attempt.run, attempt.key, weights, files.inside, keep_alive)
            computed = token_process.compute(
                files, attempt.key, weights.iteration, worker.slots, keep_alive, self._command
            )
            token_computation.do_store_tokens(request, computed)
        except TokenArraysError as error:
            raise ComputationFailed(str(error)) from error
        finally:
            self.root.remove(attempt.slug)
