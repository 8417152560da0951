"""Workers, and the use of their devices."""

from __future__ import annotations

from django.db import models

from webapp.teams.models import Team, User


class Worker(models.Model):
    """A process that trains queued runs, as of its last heartbeat."""

    name = models.CharField(max_length=200, unique=True)
    host = models.CharField(max_length=200, blank=True)
    pid = models.IntegerField(default=0)
    device = models.CharField(max_length=200, blank=True)
    device_class = models.CharField(max_length=100, blank=True, help_text="cpu, gpu, or a name set by the operator.")
    queues = models.JSONField(default=list, help_text="Device classes it serves.")
    slots = models.PositiveIntegerField(default=1)
    gpus = models.JSONField(default=list, help_text="[{id, name, total, free}] in bytes; null if unknown.")
    runs_per_gpu = models.PositiveIntegerField(default=1)
    memory = models.JSONField(default=list, help_text="[{name, total, free}] in bytes: the machine's, then each GPU's.")
    usage = models.JSONField(
        default=dict, help_text="{cpu, memory, gpu: shares of the last ten minutes; disk_free, disk_total: bytes}"
    )
    cluster = models.JSONField(
        default=dict,
        blank=True,
        help_text="Ray cluster that it stands for: {problem, nodes: [{id, name, cpus, cpus_free, gpus, gpus_free}]}.",
    )
    started_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(db_index=True)
    stopping = models.BooleanField(default=False, help_text="Shutting down: its runs are re-queued.")
    data_folder = models.CharField(max_length=24, blank=True, help_text="Identity of the data folder that it sees.")
    model_store = models.CharField(
        max_length=24, blank=True, help_text="Identity of its models folder; see StoredModel."
    )
    clock_offset = models.FloatField(default=0.0, help_text="Seconds that its clock is ahead of the database's.")
    weaknesses = models.JSONField(default=list, blank=True, help_text="Sentences: limits of trainers that it lacks.")

    def __str__(self) -> str:
        return self.name


class DeviceUse(models.Model):
    """Use of a worker's devices by one run, from claim to release; the basis of fair shares of team and author."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="device_uses")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="device_uses")
    run = models.ForeignKey("runs.Run", on_delete=models.SET_NULL, null=True, related_name="device_uses")
    weight = models.FloatField(help_text="Number of GPUs, or the weight of a slot without one.")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["ended_at"], name="use_recent")]

    def __str__(self) -> str:
        return f"{self.weight:g} devices since {self.began_at:%Y-%m-%d %H:%M}"
