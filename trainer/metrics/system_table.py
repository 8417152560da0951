"""System metrics of the trainer's processes. They are measured: two runs of one configuration differ in them."""

from __future__ import annotations

from trainer.metrics.spec import MetricSpec, spec

SYSTEM: tuple[MetricSpec, ...] = (
    spec(
        "system/cpu_percent",
        "Processor",
        "system",
        "CPU time of the trainer and the processes it started since the previous iteration, per second; 100 is a core.",
        "%",
        decimals=1,
    ),
    spec(
        "system/memory_bytes",
        "Memory",
        "system",
        "Largest resident memory of the trainer and the processes it started, since the previous iteration.",
        "bytes",
    ),
    spec(
        "system/memory_available_bytes",
        "Memory available",
        "system",
        "Least available memory of the machine or container since the previous iteration.",
        "bytes",
    ),
    spec(
        "system/disk_free_bytes",
        "Disk free",
        "system",
        "Free space where the run writes its checkpoints.",
        "bytes",
    ),
    spec(
        "system/clock_jump_seconds",
        "Jump of the clock",
        "system",
        "Seconds by which the machine's clock was set forwards, or back, since the previous iteration.",
        "seconds",
    ),
    spec(
        "system/gpu_utilization",
        "GPU utilization",
        "system",
        "Share of time in which a kernel was running, mean over the run's GPUs and since the previous iteration.",
        "share",
    ),
    spec(
        "system/gpu_memory_bytes",
        "GPU memory",
        "system",
        "Largest memory used on the run's GPUs together, by any process, since the previous iteration.",
        "bytes",
    ),
    spec(
        "system/gpu_reserved_bytes",
        "GPU memory, own",
        "system",
        "The most that PyTorch has reserved on GPUs in the trainer's process since it started; 0 on the CPU.",
        "bytes",
    ),
)
