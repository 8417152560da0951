"""Schedule of a run's checkpoints: when to save, prune and return to them; their files are in checkpoints.py."""

from __future__ import annotations

from trainer.config import rewind
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.journal.events import CheckpointRemoved, CheckpointSaved, Notice, Rewound
from trainer.learner.groups.learner_group import TrainedPolicy
from trainer.loops.session import RunSession
from trainer.loops.stages import checkpoints


class Checkpointer:
    """Saves and prunes the checkpoints of an attempt, and loads the learners' state of the newest one at the start.

    Args:
        session: the resumed run.
        learners: receive the checkpoint's state; problems that they report become warnings.
        trap: the detector whose state decides which older checkpoint is kept.
    """

    def __init__(self, session: RunSession, learners: TrainedPolicy, trap: EchoTrap) -> None:
        self.session, self.learners, self.trap = session, learners, trap
        if session.checkpoint is not None:
            for message in checkpoints.load_learner(session.folder, session.checkpoint, learners):
                session.warn(message)
        learners.notify_with(session.warn)
        session.on_interrupt = self._save_and_stop

    def is_due(self) -> bool:
        """True if the settings save a checkpoint after the current iteration."""
        config, iteration = self.session.config, self.session.progress.iteration
        return iteration % config.checkpoint.every == 0 or iteration == config.iterations

    def save(self) -> None:
        """Write the checkpoint of the current iteration and delete outdated ones."""
        session = self.session
        session.reporter.phase("checkpoint")
        session.reporter.tick()
        session.journal.sync()
        folder = checkpoints.save(session.folder, self.learners, session.progress)
        if session.progress.iteration >= 0:  # a checkpoint within the warm-up only serves to resume
            session.journal.write(
                CheckpointSaved(
                    iteration=session.progress.iteration,
                    path=str(folder.relative_to(session.folder)),
                    bytes=checkpoints.size(folder),
                )
            )
            session.journal.sync()
        for iteration in checkpoints.prune(session.folder, session.config.checkpoint.keep, self._safe_iteration()):
            if iteration >= 0:
                session.journal.write(CheckpointRemoved(iteration=iteration))

    def save_initial(self) -> None:
        """Save a checkpoint before the first iteration if the run may rewind, so that it can always return to one."""
        if self.session.config.echo_trap.action == "rewind" and self.session.progress.iteration == 0:
            self.save()

    def save_evaluated(self) -> None:
        """Save the result of an evaluation before the first iteration of an attempt, so that it is not repeated."""
        if self.session.progress.iteration or self.session.config.warmup_steps:
            self.save()

    def may_rewind(self) -> bool:
        """True if the settings allow another rewind."""
        settings = self.session.config.echo_trap
        return settings.action == "rewind" and self.session.progress.rewinds < settings.max_rewinds

    def rewind(self) -> None:
        """Make the last safe checkpoint the newest one, with the settings of the next attempt."""
        session, requested, target = self.session, self.session.requested, self._safe_iteration()
        assert target is not None, "a run that may rewind saves a checkpoint before its first iteration"
        session.release()
        session.reporter.tick()
        done, seconds = session.progress.iteration, session.progress.seconds
        removed = checkpoints.drop_after(session.folder, target)
        progress = checkpoints.load_progress(session.folder, target)
        progress.rewinds, progress.seconds = session.progress.rewinds + 1, seconds
        checkpoints.update_progress(session.folder, progress)
        changes = rewind.changes_as_text(requested, requested.after_rewinds(progress.rewinds))
        listed = ", ".join(f"{name} = {value}" for name, value in changes.items())
        message = (
            f"Collapsed by iteration {done}: rewind {progress.rewinds} of {requested.echo_trap.max_rewinds}, back to "
            f"iteration {target}, continuing with {listed or 'the same settings'} and other puzzles."
        )
        session.journal.write(
            Rewound(number=progress.rewinds, from_iteration=done, to_iteration=target, changes=changes),
            Notice(level="warning", message=message),
            *(CheckpointRemoved(iteration=iteration) for iteration in removed),
        )

    def _safe_iteration(self) -> int | None:
        """Return the checkpoint to return to after a collapse; without rewinds one is kept during warning signs."""
        folder = self.session.folder
        if self.session.config.echo_trap.action == "rewind":
            return checkpoints.last_safe(folder, self.trap.sound_until(self.session.progress.iteration))
        return checkpoints.last_safe(folder) if self.trap.state != "healthy" else None

    def _save_and_stop(self) -> None:
        """Handle a stop request: keep finished iterations; the interrupted one is played again on resume."""
        done, steps = self.session.progress.iteration, self.session.config.warmup_steps
        self.save()
        message = f"Stopped after iteration {done}; resume continues at {done + 1}."
        if done < 0:
            message = f"Stopped after step {done + steps} of {steps} of the warm-up; resume continues with the next."
        self.session.finish("interrupted", message)
