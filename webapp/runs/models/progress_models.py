"""Progress of a run by iteration and event: metrics, alarms, rewinds, notices, log lines, websocket frames."""

from __future__ import annotations

from django.conf import settings as django_settings
from django.db import models
from django.utils import timezone

from webapp.runs.models.training_run_models import Run


class MetricPoint(models.Model):
    """One metric of one iteration, with its values on the other two axes of a curve."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    name = models.CharField(max_length=100)
    iteration = models.IntegerField(help_text="Negative during a warm-up on demonstrations.")
    value = models.FloatField()
    tokens = models.PositiveBigIntegerField()
    seconds = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "name", "iteration"], name="one_value_per_iteration")]

    def __str__(self) -> str:
        return f"{self.name} {self.value:g} at iteration {self.iteration}"


class Alarm(models.Model):
    """A change of state of the Echo Trap detector."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="alarms")
    seq = models.PositiveBigIntegerField()
    iteration = models.PositiveIntegerField()
    state = models.CharField(max_length=10)
    message = models.TextField()
    evidence = models.JSONField(default=dict)
    undone = models.BooleanField(default=False, help_text="Its iteration was undone by a rewind.")
    computed = models.BooleanField(default=False, help_text="By the site, from metrics of another trainer.")
    time = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["run", "-seq"], name="alarm_newest")]

    def __str__(self) -> str:
        return self.message

    @property
    def event_key(self) -> str:
        """Identity for alerts. An event can complete several iterations, and a repeated judgement is no new alarm."""
        return f"alarm:{self.run_id}:" + (f"judged:{self.iteration}:{self.state}" if self.computed else str(self.seq))


class EchoTrapState(models.Model):
    """State of the site's Echo Trap detector in a run of another trainer; derived from the run's metrics."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="echo_trap_state")
    states = models.JSONField(
        default=list, help_text="iteration, count and detector of some iterations, the last one too."
    )
    by_trainer = models.BooleanField(default=False, help_text="The journal has verdicts of its own.")

    def __str__(self) -> str:
        return f"detector after iteration {self.states[-1]['iteration']}" if self.states else "detector"


class Rewind(models.Model):
    """A rewind: the run went back to an earlier checkpoint, after a collapse or by hand."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rewinds")
    seq = models.PositiveBigIntegerField()
    number = models.PositiveIntegerField(help_text="From 1.")
    from_iteration = models.PositiveIntegerField()
    to_iteration = models.PositiveIntegerField()
    changes = models.JSONField(default=dict, help_text="Setting → its new value, as text.")
    time = models.DateTimeField()

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_rewind_per_event")]

    def __str__(self) -> str:
        return f"rewind {self.number}, from iteration {self.from_iteration} to {self.to_iteration}"


class TimelinePart(models.Model):
    """What the processes of a run did when, in an iteration or before the first one of an attempt."""

    class Part(models.TextChoices):
        START = "start", "start"
        ITERATION = "iteration", "iteration"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="timeline")
    attempt = models.PositiveIntegerField()
    iteration = models.IntegerField(help_text="Of a start, the iterations that were finished before.")
    part = models.CharField(max_length=10, choices=Part.choices)
    began = models.DateTimeField()
    seconds = models.FloatField()
    tracks = models.JSONField(help_text="Track → spans, as in the timeline event.")
    repeated = models.BooleanField(default=False, help_text="A later attempt played the iteration again.")

    class Meta:
        ordering = ["began", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt", "iteration", "part"], name="one_timeline_per_part")
        ]

    def __str__(self) -> str:
        return f"{self.part} {self.iteration} of attempt {self.attempt}"


class SettingsChange(models.Model):
    """A change of settings while a run trains, or a rewind: requested on the site or by command, or planned."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="setting_changes")
    request = models.CharField(max_length=64, help_text="Identity in the journal; planned@ITERATION if planned.")
    author = models.ForeignKey(
        django_settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    by = models.CharField(max_length=150, blank=True, help_text="Name of the person, as in the journal.")
    why = models.TextField(blank=True)
    changes = models.JSONField(help_text="Setting → its new value, as text.")
    iteration = models.PositiveIntegerField(
        null=True, blank=True, help_text="The first iteration with the new values; empty: the trainer has not answered."
    )
    refused = models.TextField(blank=True, help_text="Why the trainer changed nothing.")
    rewind_to = models.PositiveIntegerField(
        null=True, blank=True, help_text="Iteration of the checkpoint to which the run rewinds; empty: it goes on."
    )
    rewind_from = models.PositiveIntegerField(
        null=True, blank=True, help_text="Iterations that were finished before the rewind."
    )
    time = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["time", "pk"]
        constraints = [models.UniqueConstraint(fields=["run", "request"], name="one_row_per_settings_request")]

    def __str__(self) -> str:
        back = [] if self.rewind_to is None else [f"back to iteration {self.rewind_to}"]
        return ", ".join([*back, *(f"{name} = {value}" for name, value in self.changes.items())])

    @property
    def is_pending(self) -> bool:
        """True until the trainer has answered."""
        return self.iteration is None


class Notice(models.Model):
    """A message of the trainer for users."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="notices")
    seq = models.PositiveBigIntegerField()
    level = models.CharField(max_length=10)
    message = models.TextField()
    time = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["run", "-seq"], name="notice_newest")]

    def __str__(self) -> str:
        return self.message


class LogLine(models.Model):
    """A line about an event of the journal. Lines of repeated iterations stay."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_lines")
    seq = models.PositiveBigIntegerField()
    level = models.CharField(max_length=10, help_text="info, warning or error.")
    message = models.TextField()
    time = models.DateTimeField()

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_log_line_per_event")]

    def __str__(self) -> str:
        return self.message


class EventBatch(models.Model):
    """A websocket frame with the events first_seq … last_seq, for reconnecting clients."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches")
    first_seq = models.PositiveBigIntegerField()
    last_seq = models.PositiveBigIntegerField()
    frame = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "last_seq"], name="batches_do_not_overlap")]

    def __str__(self) -> str:
        return f"events {self.first_seq} to {self.last_seq}"
