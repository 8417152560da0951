"""Stored configurations, rewinds and metrics take the current names of settings and metrics."""

from collections.abc import Mapping
from typing import Any

from django.db import migrations

SETTINGS = {
    "sinks": "trackers",
    "warmup.lesson_steps": "single_state_steps",
    "engine.memory": "gpu_memory_utilization",
    "engine.cache_gib": "cpu_kv_cache_gib",
    "engine.rows": "max_num_seqs",
    "engine.eager": "enforce_eager",
    "engine.sleep": "sleep_between_rollouts",
    "engine.patience": "server_timeout",
    "engine.weights": "weights_dir",
    "algorithm.lam": "gae_lambda",
    "algorithm.anchor_weight": "gigpo_omega",
    "algorithm.filter": "group_filter",
    "algorithm.filter_keep": "group_filter_keep",
    "algorithm.reuse": "updates_per_rollout",
    "optimizer.update_batch": "mini_batch_trajectories",
    "optimizer.shared_prompts": "prefix_sharing",
    "sft.held_out": "validation_demonstrations",
    "sft.depth": "max_solution_length",
    "evaluation.samples": "samples_per_prompt",
    "hosted.key_variable": "api_key_env",
    "hosted.longest_wait": "max_backoff",
    "hosted.without": "unsupported_params",
    "hosted.limit_name": "max_tokens_param",
    "hosted.extra": "extra_body",
    "hosted.price_in": "prompt_price_per_million",
    "hosted.price_out": "completion_price_per_million",
    "memory.guard": "preflight",
    "memory.rows": "max_concurrent_trajectories",
    "echo_trap.sensitivity": "spread_threshold",
    "echo_trap.rewind_limit": "max_rewinds",
    "diagnostics.gradient_split_every": "gradient_terms_every",
}
"""Former dotted name → current name within its section."""
METRICS = {"time/rest": "time/other", "mismatch/capped_share": "mismatch/clipped_fraction"}


def dotted(name: str, names: Mapping[str, str]) -> str:
    """The dotted name with its last part renamed."""
    return f"{name.rpartition('.')[0]}.{names[name]}".lstrip(".") if name in names else name


def config_with(names: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with settings renamed, those named by `echo_trap.rewind_changes` too."""
    result = {}
    for key, value in config.items():
        if isinstance(value, dict):
            value = {dotted(f"{key}.{field}", names).rpartition(".")[2]: inner for field, inner in value.items()}
        result[names.get(key, key)] = value
    trap = result.get("echo_trap")
    if isinstance(trap, dict) and isinstance(trap.get("rewind_changes"), dict):
        trap["rewind_changes"] = {dotted(name, names): text for name, text in trap["rewind_changes"].items()}
    return result


def rename(apps, names: Mapping[str, str], metrics: Mapping[str, str]) -> None:
    run_model, rewind_model = apps.get_model("runs", "Run"), apps.get_model("runs", "Rewind")
    for run in run_model.objects.only("config").iterator(chunk_size=200):
        config = config_with(names, run.config)
        if config != run.config:
            run_model.objects.filter(pk=run.pk).update(config=config)
    for rewind in rewind_model.objects.only("changes").iterator(chunk_size=200):
        changes = {dotted(name, names): text for name, text in rewind.changes.items()}
        if changes != rewind.changes:
            rewind_model.objects.filter(pk=rewind.pk).update(changes=changes)
    for former, name in metrics.items():
        apps.get_model("runs", "MetricPoint").objects.filter(name=former).update(name=name)


def forwards(apps, editor):
    rename(apps, SETTINGS, METRICS)


def backwards(apps, editor):
    sections = {name: name.rpartition(".")[0] for name in SETTINGS}
    settings = {
        f"{sections[name]}.{current}".lstrip("."): name.rpartition(".")[2] for name, current in SETTINGS.items()
    }
    rename(apps, settings, {name: former for former, name in METRICS.items()})


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_squashed")]

    operations = [migrations.RunPython(forwards, backwards)]
