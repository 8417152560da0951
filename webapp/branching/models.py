"""Questions to a policy about recorded attempts and evaluations, which workers answer (webapp/worker/computations)."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.signals import post_delete
from django.dispatch import receiver

from trainer.journal.branches import Change
from webapp.core import ids
from webapp.runs.models import Run, WorkerRequest
from webapp.trajectories.models import Group, Trajectory


class BranchQuestion(WorkerRequest):
    """A question about an attempt: play on from a turn, the value of its turns, or whether its thoughts matter.

    It stays as long as the attempt, with its answer. Branches are trajectories of its group.
    """

    class Kind(models.TextChoices):
        BRANCH = "branch", "Play on"
        VALUE = "value", "Value by play"
        THOUGHTS = "thoughts", "Does the thought matter?"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="questions")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    turn = models.PositiveIntegerField(null=True, help_text="Of play on: the position is before this turn, 0-based.")
    samples = models.PositiveIntegerField()
    temperature = models.FloatField(null=True, help_text="null: as the attempt was sampled.")
    change = models.JSONField(default=dict, help_text="What is changed at the turn: state, thought or answer.")
    luck = models.CharField(max_length=8, default="recorded", help_text="Later randomness: recorded or fresh.")
    weights_run = models.ForeignKey(
        Run, on_delete=models.CASCADE, null=True, related_name="+", help_text="Run of the weights; null: the attempt's."
    )
    checkpoint = models.IntegerField(
        null=True,
        help_text="Finished iterations of the wanted weights; null: the attempt's, or another run's newest.",
    )
    used_checkpoint = models.IntegerField(null=True, help_text="Finished iterations of the weights that answered.")
    encoded = models.BooleanField(null=True, help_text="Whether token ids come from the recorded text.")
    done = models.PositiveIntegerField(default=0, help_text="Finished samples.")
    total = models.PositiveIntegerField(default=0)
    partial = models.JSONField(default=dict, help_text="Number of a branch → turn and text of its response so far.")
    result = models.JSONField(null=True, help_text="The sampler's last answer (trainer/journal/branches.py).")
    answered_at = models.DateTimeField(null=True)
    group = models.OneToOneField(
        Group, on_delete=models.SET_NULL, null=True, related_name="question", help_text="Of its branches."
    )

    class Meta:
        indexes = [
            models.Index(fields=["state", "requested_at"], name="branch_question_queue"),
            models.Index(fields=["trajectory", "requested_at"], name="branch_questions"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.trajectory_id}, {self.state}"

    @property
    def changed(self) -> Change:
        """What is changed at the position."""
        return Change.model_validate(self.change)

    @property
    def run_with_weights(self) -> Run:
        return self.weights_run or self.trajectory.run


class EvaluationQuestion(WorkerRequest):
    """A question about all attempts of an evaluation: what correcting misread positions wins, what thoughts decide.

    It stays as long as the run, with its answer, unless the evaluation is played again.
    """

    class Kind(models.TextChoices):
        CORRECTIONS = "corrections", "Correct what it misread"
        THOUGHTS = "thoughts", "Do the thoughts matter?"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="evaluation_questions")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    suite = models.CharField(max_length=100)
    iteration = models.IntegerField(help_text="Finished iterations at the evaluation.")
    samples = models.PositiveIntegerField(help_text="Continuations of each kind, or next actions after each thought.")
    most_attempts = models.PositiveIntegerField(help_text="Of more attempts, so many are drawn.")
    used_checkpoint = models.IntegerField(null=True, help_text="Finished iterations of the weights that answered.")
    encoded = models.BooleanField(null=True, help_text="Whether token ids come from the recorded text.")
    done = models.PositiveIntegerField(default=0, help_text="Finished continuations, or turns.")
    total = models.PositiveIntegerField(default=0, help_text="0: not known yet.")
    result = models.JSONField(null=True, help_text="The sampler's last answer (trainer/journal/branches.py).")
    answered_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["state", "requested_at"], name="evaluation_question_queue"),
            models.Index(fields=["run", "requested_at"], name="evaluation_questions"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.suite} after iteration {self.iteration} of {self.run_id}, {self.state}"


@receiver(post_delete, sender=BranchQuestion)
def _delete_branches(instance: BranchQuestion, **kwargs: Any) -> None:
    """Delete the branches with their question, and with the attempt from which they were played on."""
    if instance.group_id is not None:
        Group._base_manager.filter(pk=instance.group_id).delete()
