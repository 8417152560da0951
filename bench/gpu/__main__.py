"""Speed of rollout, update and iteration on a GPU, with random weights; nothing is downloaded.

    python -m bench.gpu                                        # all parts at the shape of Qwen2.5-0.5B, ten minutes
    python -m bench.gpu --parts update,rollout --rounds 3
    python -m bench.gpu --shape tiny --device cpu --dtype float32    # the same code, to check that it works

Needs PyTorch, transformers, pydantic, gymnasium, peft and psutil in addition to this repository. Every part runs in
a separate process on a GPU, so that a failing part does not affect the others; rows are written to --rows as they
arrive, and a table is printed at the end. Parts that no longer fit into --seconds are left out, the least telling
first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import replace

import torch
import transformers

from bench.gpu.options import Settings, check, parser
from bench.gpu.parts import PARTS
from bench.gpu.peaks import find_peak
from bench.gpu.record import Recorder, markdown, read_rows
from trainer.studies import machine

GRACE = 45.0
"""Seconds that a part may take longer than planned, for its start and the round it is in, before it is ended."""
LEAST = 30.0
"""Seconds below which no further part is started."""


def read_settings(options: argparse.Namespace) -> Settings:
    """Return the settings, with the defaults of the shape and the peak of the device."""
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    settings = Settings(
        device=options.device,
        shape=options.shape,
        dtype=options.dtype,
        parts=options.parts,
        variants=options.variants,
        rounds=options.rounds,
        seconds=options.seconds,
        peak=options.peak_tflops * 1e12 if options.peak_tflops else find_peak(name),
        rows=options.rows,
    )
    if options.rounds:
        return settings
    return replace(settings, rounds=settings.workload.rounds)


def run_here(name: str, settings: Settings, seconds: float) -> None:
    """Run a part in this process and record any error that ends it early."""
    recorder = Recorder(name, settings.rows, time.monotonic() + seconds)
    began = time.monotonic()
    with recorder.attempt(name):
        PARTS[name].run(settings, recorder)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def run_apart(name: str, settings: Settings, seconds: float) -> None:
    """Run a part in a separate process, since an error of the GPU ends everything in its process."""
    recorder = Recorder(name, settings.rows, 0.0)
    command = [sys.executable, "-m", "bench.gpu", "--part", name, *settings.arguments()]
    command[command.index("--seconds") + 1] = str(seconds)
    rows_before = len(read_rows(settings.rows))
    try:
        code = subprocess.run(command, timeout=seconds + GRACE).returncode
    except subprocess.TimeoutExpired:
        recorder.failed(name, f"ended after {seconds + GRACE:.0f} seconds")
        return
    if code:
        recorder.failed(name, f"its process ended with {code}: see its output")
    elif len(read_rows(settings.rows)) == rows_before:
        recorder.failed(name, "it measured nothing")


def main() -> int:
    """Run the parts and print the table."""
    made = parser(list(PARTS), __doc__)
    options = made.parse_args()
    check(options, list(PARTS), made)
    settings = read_settings(options)
    if options.part:
        run_here(options.part, settings, settings.seconds)
        return 0
    settings.rows.unlink(missing_ok=True)
    end, host = time.monotonic() + settings.seconds, machine.describe()
    run = run_apart if settings.device == "cuda" else run_here
    for name in settings.parts:
        left = end - time.monotonic()
        if left < LEAST:
            Recorder(name, settings.rows, 0.0).add(name, result="left out: no time was left (--seconds, --parts)")
            continue
        run(name, settings, min(PARTS[name].seconds, left))
    gpu = torch.cuda.get_device_name() if settings.device == "cuda" else "CPU"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, CUDA {torch.version.cuda}"
    peak = f"peak {settings.peak / 1e12:,.4g} TFLOP/s" if settings.peak else "peak unknown, so no MFU: --peak-tflops"
    heading = (
        f"{gpu}; {host}\n{versions}\n{settings.shape}, {settings.dtype}; medians of up to {settings.rounds} rounds; "
        f"{peak}. Workload: {settings.workload}\n"
    )
    text = heading + "\n" + markdown(read_rows(settings.rows)) + "\n"
    print(text)
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
