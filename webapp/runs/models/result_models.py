"""Results of a run: checkpoints, evaluations, the generalization matrix."""

from __future__ import annotations

from django.db import models

from webapp.runs.models.training_run_models import Run


class Checkpoint(models.Model):
    """A checkpoint on disk."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    iteration = models.PositiveIntegerField()
    path = models.CharField(max_length=500)
    bytes = models.PositiveBigIntegerField()
    time = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "iteration"], name="one_checkpoint_per_iteration")]

    def __str__(self) -> str:
        return self.path


class Evaluation(models.Model):
    """The result of an evaluation suite. Iteration 0 = before training."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="evaluations")
    iteration = models.IntegerField()
    suite = models.CharField(max_length=100)
    prompts = models.PositiveIntegerField()
    samples = models.PositiveIntegerField(default=1, help_text="Trajectories per prompt.")
    success = models.FloatField()
    success_low = models.FloatField()
    success_high = models.FloatField()
    pass_at = models.JSONField(default=dict, help_text="k → pass@k.")
    mean_reward = models.FloatField(null=True, help_text="null: not known, in runs of other trainers; likewise below.")
    mean_turns = models.FloatField(null=True)
    mean_actions = models.FloatField(null=True)
    mean_response = models.FloatField(null=True, help_text="Sampled tokens per turn.")
    final = models.BooleanField(default=False)
    time = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "suite", "iteration"], name="one_evaluation_per_iteration"),
        ]

    def __str__(self) -> str:
        return f"{self.suite} after iteration {self.iteration}: {self.success:.0%}"

    def passed_at(self) -> list[tuple[int, float]]:
        """Return (k, pass@k), ascending in k; empty if each prompt was played once."""
        return sorted((int(k), share) for k, share in self.pass_at.items())


class GeneralizationMatrix(models.Model):
    """Results of every policy in every suite, from the journal's `generalization` event."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="matrix")
    seq = models.PositiveBigIntegerField()
    policies = models.JSONField()
    suites = models.JSONField()
    cells = models.JSONField()
    time = models.DateTimeField()

    def __str__(self) -> str:
        return f"{len(self.policies)} policies through {len(self.suites)} suites"
