"""Rollouts of the same dialogues by our sampler in several forms, by `generate` of transformers, and by vLLM."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PreTrainedModel

from bench.gpu.models import GIB, build
from bench.gpu.options import Settings
from bench.gpu.record import Recorder, interleaved, median, speedup
from bench.lib.peers.env_peers import NotInstallable
from bench.lib.peers.vllm_peer import Vllm
from bench.lib.random_models import SHAPES
from bench.lib.recorded_dialogues import GROUP
from bench.lib.rollout_workload import Generate, OurSampler, Work, make
from trainer.engines.transformers.decode_steps import DecodeMode

OURS = "Echoscope"
EAGER = "without CUDA graphs"
GENERATE, VLLM = "transformers generate", "vLLM"


def workload(settings: Settings, turns: int | None = None) -> Work:
    """Return dialogues shaped like Sokoban's, with this many turns; None: as many as usual."""
    work = settings.workload
    return make(work.trajectories, turns or work.turns, GROUP, SHAPES[settings.shape]["vocab_size"], work.responses)


def rollout(settings: Settings, recorder: Recorder, rounds: int | None = None) -> None:
    """Measure tokens per second, the speed relative to `generate`, and peak memory."""
    work, model = workload(settings), build(settings)
    grouped = model.config._attn_implementation, "row_by_row" if settings.device == "cuda" else "sdpa"

    def checked(name: str, play: Callable[[Work], int], attention: str) -> Callable[[], None]:
        def run() -> None:
            model.config._attn_implementation = attention
            tokens = play(work)
            if tokens != work.tokens:
                raise RuntimeError(f"{name} sampled {tokens} tokens instead of {work.tokens}")

        return run

    def ours(decoding: DecodeMode | None) -> OurSampler:
        return OurSampler(model, decoding)

    usual = ours(None)
    contenders = {
        OURS: checked(OURS, usual.play, grouped[1]),
        GENERATE: checked(GENERATE, Generate(model).play, grouped[0]),
        EAGER: checked(EAGER, ours("static").play, grouped[1]),
    }
    if rounds is not None:
        contenders = {name: contenders[name] for name in (OURS, GENERATE)}
    if chosen := [name for name in contenders if name in settings.variants]:
        contenders = {name: contenders[name] for name in chosen}
    with ExitStack() as stack:
        if rounds is None:
            _add_vllm(settings, recorder, stack, model, work, contenders)
        took = interleaved(contenders, rounds or settings.rounds, settings.device, recorder)
    for name, clocks in took.items():
        recorder.add(
            name,
            **{
                "tokens/s": work.tokens / median(clocks),
                "seconds": median(clocks),
                "× generate": speedup(clocks, took[GENERATE]) if GENERATE in took else None,
                "peak GiB": median(clocks, "peak") / GIB,
            },
        )
    if settings.device == "cuda":
        recorder.add("CUDA graphs", result="captured" if usual.decoding == "graphs" else "refused: see the log")


def _add_vllm(
    settings: Settings,
    recorder: Recorder,
    stack: ExitStack,
    model: PreTrainedModel,
    work: Work,
    contenders: dict[str, Callable[[], None]],
) -> None:
    """Start vLLM if it is installed; its memory is not part of this process."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="echoscope-gpu-")))
    try:
        model.save_pretrained(folder)
        threads = torch.get_num_threads()
        vllm = Vllm(None, folder, settings.dtype, settings.workload.trajectories, work.context + 1, threads)
    except NotInstallable as reason:
        recorder.add(VLLM, result=f"not measured: {reason}")
        return
    stack.enter_context(closing(vllm))

    def play() -> None:
        tokens = vllm.play(work)
        if tokens != work.tokens:
            raise RuntimeError(f"vLLM sampled {tokens} tokens instead of {work.tokens}")

    contenders[VLLM] = play
