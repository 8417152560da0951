"""Updates on the same dialogues in several forms, each with its gain, and the plain PyTorch step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from bench.gpu.models import GIB, build
from bench.gpu.options import Settings
from bench.gpu.record import Recorder, interleaved, median, speedup
from bench.lib.random_models import SHAPES, outline, step_flops
from bench.lib.recorded_dialogues import Dialogue, even
from bench.lib.workers import plain_worker
from bench.lib.workers.our_worker import OurWorker, batch
from bench.lib.workers.our_worker import settings as run_settings
from trainer.policy import compiled_layers, gradient_checkpointing
from trainer.rollout.trajectory import Batch

Change = Callable[[], AbstractContextManager[None]]

DEFAULT, PLAIN = "default settings", "plain PyTorch"
COMPILED, COMPILED_UNSHARED = "compiled layers", "compiled layers without sharing"
UNSHARED, RECOMPUTED = "prefixes not shared", "gradient checkpointing"
VARIANTS = (DEFAULT, COMPILED, COMPILED_UNSHARED, UNSHARED, RECOMPUTED, PLAIN)


class Updates:
    """One model with its learner, and the ways in which it can compute the same update."""

    def __init__(self, settings: Settings, tokens: int) -> None:
        self.settings, work = settings, settings.workload
        self.rows = tokens // work.length
        self.dialogues = even(self.rows, work.length - work.trained, work.trained, SHAPES[settings.shape]["vocab_size"])
        self.model = build(settings)
        config = run_settings(self.rows, settings.dtype, micro=work.micro)
        self.worker = OurWorker(self.model, config)
        self.learner = self.worker.learner
        self.batch: Batch = batch(self.worker.record(self.dialogues))
        self.layers = [part for part in self.model.modules() if isinstance(part, GradientCheckpointingLayer)]

    def step(self, *changes: Change) -> Callable[[], None]:
        """Return a function that runs one update with these changes."""

        def run() -> None:
            with ExitStack() as stack:
                for change in changes:
                    stack.enter_context(change())
                metrics = self.worker.update(self.batch)
                if "update/steps" not in metrics:
                    raise RuntimeError(f"no step was taken: {metrics}")

        return run

    def computed_tokens(self) -> int:
        """Return the number of tokens that pass through the layers, with shared prefixes counted once."""
        return sum(
            len(part.packed.source) if part.packed is not None else int(part.batch.ids.numel())
            for part in self.learner.micro_batches(self.batch)
        )

    def unshared(self) -> Change:
        changed = replace(self.learner.planner, share_prefixes=False)
        return lambda: cast(AbstractContextManager[None], patch.object(self.learner, "planner", changed))

    def forwards(self, make: Callable[[Any], int], of: Sequence[Any]) -> Change:
        """Replace `forward` of some modules; done once, so that compilations are kept."""
        originals = [part.forward for part in of]
        make(self.model)
        made = [part.forward for part in of]

        def set_all(forwards: list[Any]) -> None:
            for part, forward in zip(of, forwards, strict=True):
                part.forward = forward

        set_all(originals)

        @contextmanager
        def changed() -> Iterator[None]:
            set_all(made)
            try:
                yield
            finally:
                set_all(originals)

        return changed

    def compiled(self) -> Change:
        parts = [part for layer in self.layers for name, part in layer.named_children() if name != "self_attn"]
        return self.forwards(compiled_layers.compile_layers, parts)

    def recomputed(self) -> Change:
        return self.forwards(gradient_checkpointing.checkpoint_layers, self.layers)


def plain(settings: Settings, dialogues: Sequence[Dialogue]) -> Callable[[], None]:
    """Return an update of padded rows, all logits, in bf16 by autocast over fp32 weights, in smaller micro-batches."""
    model = build(settings).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
    inputs = plain_worker.padded(dialogues, settings.device)
    mixed, micro = settings.dtype == "bfloat16", settings.workload.micro // 4
    return lambda: void(plain_worker.step(model, optimizer, inputs, micro, mixed=mixed))


def void(value: object) -> None:
    """Drop a result."""


def get_changes(updates: Updates, name: str) -> list[Change]:
    makers: dict[str, list[Callable[[], Change]]] = {
        DEFAULT: [],
        COMPILED: [updates.compiled],
        COMPILED_UNSHARED: [updates.compiled, updates.unshared],
        UNSHARED: [updates.unshared],
        RECOMPUTED: [updates.recomputed],
    }
    return [make() for make in makers[name]]


def update(settings: Settings, recorder: Recorder, tokens: int | None = None, names: Sequence[str] = VARIANTS) -> None:
    """Measure tokens per second, MFU, the speed relative to the default settings, and peak memory.

    MFU counts every token of the rows, shared prefixes in each row; the second figure counts them once.
    """
    updates = Updates(settings, tokens or settings.workload.tokens[0])
    contenders: dict[str, Callable[[], None]] = {}
    for name in (name for name in names if not settings.variants or name in settings.variants or name == DEFAULT):
        with recorder.attempt(name):
            if name == PLAIN:
                contenders[name] = plain(settings, updates.dialogues)
            else:
                contenders[name] = updates.step(*get_changes(updates, name))
    took = interleaved(contenders, settings.rounds, settings.device, recorder, warm=2)
    lengths = [len(dialogue) for dialogue in updates.dialogues]
    scored = sum(dialogue.trained for dialogue in updates.dialogues)
    flops = step_flops(outline(settings.shape), lengths, scored)
    once = flops * updates.computed_tokens() / sum(lengths)
    for name, clocks in took.items():
        shares = name not in (UNSHARED, COMPILED_UNSHARED, PLAIN)
        recorder.add(
            name,
            **{
                "tokens/s": sum(lengths) / median(clocks),
                "seconds": median(clocks),
                "MFU": _share(flops, median(clocks), settings.peak),
                "MFU, prefixes once": _share(once if shares else flops, median(clocks), settings.peak),
                "× default": speedup(clocks, took[DEFAULT]) if DEFAULT in took else None,
                "peak GiB": median(clocks, "peak") / GIB,
            },
        )


def _share(flops: float, seconds: float, peak: float | None) -> str | None:
    return f"{flops / seconds / peak:.1%}" if peak else None


def update_large_batch(settings: Settings, recorder: Recorder) -> None:
    """Measure the second size of update, with the variants that matter for it."""
    update(settings, recorder, settings.workload.tokens[1], (DEFAULT, COMPILED, COMPILED_UNSHARED, PLAIN))
