"""Schedule of a run's checkpoints: when to save, prune and return to them; their files are in checkpoints.py."""

from __future__ import annotations

from trainer.config import rewind
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.journal.events import AnyEvent, CheckpointRemoved, CheckpointSaved, Notice, Rewound
from trainer.learner.groups.learner_group import TrainedPolicy
from trainer.loops.session import RunSession
from trainer.loops.stages import checkpoints, manual_rewinds
from trainer.loops.stages.checkpoints import Progress
from trainer.loops.stages.manual_rewinds import ManualRewind


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
        """True if the settings save a checkpoint after the current iteration, or a planned rewind returns to it."""
        config, iteration = self.session.config, self.session.progress.iteration
        if iteration % config.checkpoint.every == 0 or iteration == config.iterations:
            return True
        return iteration in manual_rewinds.needed_checkpoints(self.session)

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
        needed = {self._safe_iteration(), *manual_rewinds.needed_checkpoints(session)}
        for iteration in checkpoints.prune(session.folder, session.config.checkpoint.keep, needed):
            if iteration >= 0:
                session.journal.write(CheckpointRemoved(iteration=iteration))

    def save_initial(self) -> None:
        """Save a checkpoint before the first iteration if the run may rewind, so that it can always return to one."""
        rewinds = self.session.config.echo_trap.action == "rewind"
        if self.session.progress.iteration == 0 and (rewinds or 0 in manual_rewinds.needed_checkpoints(self.session)):
            self.save()

    def save_evaluated(self) -> None:
        """Save the result of an evaluation before the first iteration of an attempt, so that it is not repeated."""
        if self.session.progress.iteration or self.session.config.warmup_steps:
            self.save()

    def may_rewind(self) -> bool:
        """True if the settings allow another rewind after a collapse."""
        rewinds = self.session.config.echo_trap.action == "rewind"
        return rewinds and _collapses(self.session.progress) < rewind.MAX_REWINDS

    def rewind(self, asked: ManualRewind | None = None) -> None:
        """Let the next attempt continue from an earlier checkpoint: the last safe one, or the one that was asked for.

        Renewing the progress of that checkpoint makes the rewind, in one step. The next attempt deletes the later
        checkpoints and reports the rewind, in another process if this one is killed.
        """
        session = self.session
        target = self._safe_iteration() if asked is None else asked.target
        assert target is not None, "a run that may rewind saves a checkpoint before its first iteration"
        session.release()
        session.reporter.tick()
        progress, done = manual_rewinds.progress_after(session, target, asked), session.progress.iteration
        changes = rewind.changes_as_text(session.requested, session.settings_at(target + 1, progress))
        rewound = Rewound(number=progress.rewinds, from_iteration=done, to_iteration=target, changes=changes)
        events: list[AnyEvent] = (
            [rewound, self._explained(rewound, progress)]
            if asked is None
            else [asked.event(done, progress.rewinds), rewound]
        )
        later = (at for at in reversed(checkpoints.checkpoint_iterations(session.folder)) if at > target)
        events += [CheckpointRemoved(iteration=iteration) for iteration in later]
        progress.unreported = [event.model_dump(exclude_none=True) for event in events]
        session.journal.sync()
        checkpoints.update_progress(session.folder, progress)

    def _explained(self, rewound: Rewound, progress: Progress) -> Notice:
        """Return the notice of a rewind after a collapse."""
        listed = ", ".join(f"{name} = {value}" for name, value in rewound.changes.items())
        message = (
            f"Collapsed by iteration {rewound.from_iteration}: rewind {_collapses(progress)} of "
            f"{rewind.MAX_REWINDS}, back to iteration {rewound.to_iteration}, continuing "
            f"with {listed or 'the same settings'} and other puzzles."
        )
        return Notice(level="warning", message=message)

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


def _collapses(progress: Progress) -> int:
    """Return the number of rewinds that followed a collapse."""
    return progress.rewinds - len(progress.rewinds_by_hand)
