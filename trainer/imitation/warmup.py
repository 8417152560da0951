"""Warm-up of the pocket policy on demonstrations, cached by the digest of its settings."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

import envs
from trainer.config.run import RolloutConfig, RunConfig, WarmupConfig
from trainer.imitation.copying import copyable_tokens, copying_batch, copying_loss
from trainer.imitation.courses import COURSES, Course
from trainer.imitation.demonstrations import (
    Demonstration,
    DemonstrationSource,
    demonstrate,
    demonstration_stream,
    single_state_demonstration,
    single_turn,
)
from trainer.paths import shipped_folder
from trainer.policy import pocket
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.prompts import opening_message
from trainer.rollout.trajectory import collate
from trainer.seeds import derive

RECORD = "warmup.json"
FORMAT = 1  # increment when model, tokenizer, prompts or demonstrations change, so that caches are rebuilt
_BUCKET = 8  # batches sorted by length together: less padding, still shuffled
_MISTAKE_RATE = 0.25
_WORD_REPEATS = 200  # repetitions that make even the rarest words of the vocabulary a token
_REHEARSED = 4  # demonstration steps between rehearsals of copying, if it was practised: it would be forgotten
_LOCK_POLL = 1.0  # seconds
Progress = Callable[[int, int], None]


def corpus(course: Course, seed: int, rollout: RolloutConfig | None = None) -> Iterator[str]:
    """Yield the tokenizer's training text: the course's prompts and demonstrations, and its vocabulary."""
    bootstrap = pocket.build_tokenizer([_sentence(name) for name in course.vocabulary])
    rollout = rollout or RolloutConfig()
    chat = ChatFormat.of_rollout(bootstrap, rollout)
    source = partial(_dialogue, course, chat, noise=0.0, mistake_rate=0.0, context=pocket.CONTEXT * 8)
    for demonstration in islice(demonstration_stream(course.tasks(rollout), seed, source), 400):
        for turn in demonstration.trajectory.turns:
            yield turn.state
            yield turn.response
    for name in course.vocabulary:
        yield from [_sentence(name)] * 40
    yield from [f"[{word}]" for word in course.words()] * _WORD_REPEATS
    yield from [chat.decode(chat.opening("")), "Reward: Turn Actions left: "] * 40


def _sentence(name: str) -> str:
    return opening_message(envs.spec(name), RolloutConfig())


def response_loss(model: Qwen2ForCausalLM, demonstrated: list[Demonstration], pad_id: int) -> Tensor:
    """Compute the mean cross-entropy of the taught turns' response tokens, nats."""
    batch = collate([d.trajectory for d in demonstrated], pad_id)
    taught = torch.zeros_like(batch.mask)
    for row, number in enumerate(batch.trajectory.tolist()):
        for turn in demonstrated[number].taught:
            taught[row] |= batch.turn_of[row] == turn
    hidden = model.base_model(input_ids=batch.ids).last_hidden_state
    logits = model.lm_head(hidden[:, :-1][taught[:, 1:]])
    return torch.nn.functional.cross_entropy(logits.float(), batch.ids[:, 1:][taught[:, 1:]])


def _batches(stream: Iterator[Demonstration], size: int) -> Iterator[list[Demonstration]]:
    generator = torch.Generator().manual_seed(0)
    while True:
        pool = sorted(islice(stream, size * _BUCKET), key=lambda d: len(d.trajectory.ids))
        for index in torch.randperm(_BUCKET, generator=generator).tolist():
            yield pool[index * size : (index + 1) * size]


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Return the learning rate: linear warm-up over the first 5 %, then cosine decay to a tenth of the peak."""
    warmup = max(1, steps // 20)
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))))


def train(settings: WarmupConfig, progress: Progress) -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast]:
    """Build and train tokenizer and model: on texts to copy, single states, dialogues, then briefly on noisy ones.

    `progress(done, total)` is called after every optimiser step. Deterministic given settings and number of threads.
    """
    course = COURSES[settings.course]
    recipe, size = course.recipe, course.recipe.batch
    rollout = RolloutConfig(think=settings.think)
    tokenizer, model = _at_start(course, recipe.seed, rollout)
    chat = ChatFormat.of_rollout(tokenizer, rollout)
    dialogue = partial(_dialogue, course, chat)
    good = partial(_within_window, partial(dialogue, noise=0.0, mistake_rate=_MISTAKE_RATE))
    noisy = partial(_within_window, partial(dialogue, noise=recipe.noise, mistake_rate=0.0))
    sources: list[tuple[int, int, float, DemonstrationSource]] = [
        (recipe.single_state_steps, 2 * size, 1.0, partial(_single_state, course, chat)),
        (recipe.steps, size, 0.5, good),
        (recipe.refine_steps, size, 0.5, good),
        (recipe.noisy_steps, size, 0.2, noisy),
    ]
    copying = _copying_losses(model, tokenizer, recipe.seed, course.frequent)
    losses = [(recipe.copying_steps, 1.0, copying)]
    for number, (steps, batch, share, source) in enumerate(sources):
        demonstrations = demonstration_stream(course.tasks(rollout), derive(recipe.seed, number), source)
        losses.append((steps, share, _response_losses(model, tokenizer, _batches(demonstrations, batch))))
    total, done = sum(steps for steps, _, _ in losses), 0
    for steps, share, stage in losses:
        peak = recipe.learning_rate * share
        optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01, betas=(0.9, 0.95))
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, peak)
            loss = next(stage)
            if recipe.copying_steps and stage is not copying and step % _REHEARSED == 0:
                loss = loss + next(copying)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            done += 1
            progress(done, total)
    return model, tokenizer


def _copying_losses(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, frequent: float
) -> Iterator[Tensor]:
    tokens, rng = copyable_tokens(tokenizer), np.random.default_rng([seed, 3])
    while True:
        yield copying_loss(model, copying_batch(tokens, rng, frequent=frequent))


def _response_losses(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, batches: Iterator[list[Demonstration]]
) -> Iterator[Tensor]:
    for demonstrated in batches:
        yield response_loss(model, demonstrated, tokenizer.pad_token_id)


def _at_start(course: Course, seed: int, rollout: RolloutConfig) -> tuple[PreTrainedTokenizerFast, Qwen2ForCausalLM]:
    """Return tokenizer and model before the first step."""
    tokenizer = pocket.build_tokenizer(corpus(course, seed, rollout), course.tokens)
    model = pocket.build_model(tokenizer, seed, **course.shape)
    pocket.look_back(model, course.distances)
    if course.copies:
        pocket.induction_head(model, seed)
    return tokenizer, model


def _single_state(course: Course, chat: ChatFormat, config: RunConfig, seed: int) -> Demonstration:
    varied, demonstrator = course.varied(config, seed), course.demonstrator_for(seed, single_state=True)
    return single_state_demonstration(varied, chat, seed, demonstrator, with_task=course.task_in_every_prompt)


def _dialogue(
    course: Course,
    chat: ChatFormat,
    config: RunConfig,
    seed: int,
    *,
    noise: float,
    mistake_rate: float,
    context: int = pocket.CONTEXT,
) -> Demonstration:
    return demonstrate(
        course.varied(config, seed),
        chat,
        seed,
        noise=noise,
        mistake_rate=mistake_rate,
        context=context,
        demonstrator=course.demonstrator_for(seed),
    )


def _within_window(source: DemonstrationSource, config: RunConfig, seed: int) -> Demonstration:
    """Return the dialogue; with a context window of one turn only a turn of it, since its turns share no tokens."""
    dialogue = source(config, seed)
    if config.rollout.context_turns != 1 or not dialogue.taught:
        return dialogue
    return single_turn(dialogue, random.Random(seed).choice(sorted(dialogue.taught)))


def digest(settings: WarmupConfig) -> str:
    """Return a content hash of everything that determines the warmed-up policy."""
    facts = {"format": FORMAT, **settings.stable_dump(), **COURSES[settings.course].recipe.facts()}
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shipped(settings: WarmupConfig) -> Path | None:
    """Return the checkpoint that ships with the project for these settings, if there is one."""
    folder = shipped_folder(settings.course)
    record = folder / RECORD
    if record.exists() and json.loads(record.read_text())["digest"] == digest(settings):
        return folder
    return None


def write(folder: Path, settings: WarmupConfig, progress: Progress, **record: object) -> None:
    """Train and save a policy with its record; the folder appears only when complete."""
    model, tokenizer = train(settings, progress)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    pocket.save(model, tokenizer, partial)
    made = settings.model_dump() | COURSES[settings.course].recipe.facts()
    facts = {"digest": digest(settings), "format": FORMAT, "settings": made, **record}
    (partial / RECORD).write_text(json.dumps(facts, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def find_or_build(settings: WarmupConfig, cache: Path, progress: Progress) -> Path:
    """Return the folder of the pocket policy warmed up with these settings: shipped, cached, or built now (minutes)."""
    if (ready := shipped(settings)) is not None:
        return ready
    folder = cache / f"pocket-{digest(settings)}"
    if not (folder / RECORD).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock"), lambda: progress(0, 1)):
            if not (folder / RECORD).exists():
                write(folder, settings, progress)
    return folder


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a cached policy, so that one process builds it and the others wait, calling `waiting`."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(_LOCK_POLL)
        yield
