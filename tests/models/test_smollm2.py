"""SmolLM2 135M, a real language model: import, evaluation, imitation, StarPO-S, resumption and export.

The tests build on each other's runs: a real model takes seconds per step.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.models.conftest import NAME
from tests.trainer.models import tiny_gguf
from tests.trainer.models.test_gguf_import import TEXTS
from trainer.config.run import PolicyConfig, RunConfig
from trainer.journal import reader
from trainer.journal.events import Evaluation, Metrics, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.loops.export import export
from trainer.policy.load import load

SENTENCES = (
    "The capital of France is Paris, and the river that flows through it is the Seine.",
    "Water boils at one hundred degrees Celsius at sea level, and it freezes at zero.",
    "She opened the door, walked into the kitchen and made herself a cup of coffee.",
)
PERPLEXITY = 13.46
"""Of the 4-bit weights in float32."""
TURN = {"max_turns": 1, "max_actions": 1, "max_actions_per_turn": 1, "max_response_tokens": 48}


def config(kind: str, model: str, **sections: Any) -> RunConfig:
    data: dict[str, Any] = {
        "kind": kind,
        "policy": {"model": model, "dtype": "bfloat16", "threads": 1, "device": "cpu"},
        "environment": {"name": "Bandit"},
        "rollout": TURN,
        "lora": {"rank": 0},
        "evaluation": {"prompts": 4, "every": 0},
    }
    for name, values in sections.items():
        data[name] = data[name] | values if isinstance(data.get(name), dict) else values
    return RunConfig.model_validate(data)


def events(folder: Path, kind: type) -> list[Any]:
    return [event for event in reader.read(folder / JOURNAL_FILE) if isinstance(event, kind)]


def values(folder: Path, name: str) -> list[float]:
    return [event.values[name] for event in events(folder, Metrics) if name in event.values]


def test_the_import_computes_the_probabilities_of_the_model(smollm2: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()
    total = count = 0.0
    with torch.no_grad():
        for sentence in SENTENCES:
            ids = tokenizer(sentence, return_tensors="pt").input_ids
            total += float(model(ids, labels=ids).loss) * (ids.shape[1] - 1)
            count += ids.shape[1] - 1
    assert math.exp(total / count) == pytest.approx(PERPLEXITY, rel=0.01)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0][prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_the_tokenizer_is_the_one_that_is_kept_for_other_tests(smollm2: Path) -> None:
    data = dict(tiny_gguf.smollm2())
    template = data.pop("chat_template")
    kept = Tokenizer.from_str(json.dumps(data))
    imported = AutoTokenizer.from_pretrained(smollm2)
    assert imported.chat_template == template
    for text in TEXTS:
        assert imported.encode(text, add_special_tokens=False) == kept.encode(text, add_special_tokens=False).ids


def test_it_is_evaluated_without_training(smollm2: Path, tmp_path: Path) -> None:
    run_factory.run(config("evaluate", NAME), tmp_path, tmp_path / "cache")
    (evaluation,) = events(tmp_path, Evaluation)
    assert evaluation.prompts == 4
    assert all(turn.response.strip() for turn in events(tmp_path, Turn))


@pytest.fixture(scope="module")
def imitated(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sft")
    sft = {"demonstrations": 16, "batch": 8, "learning_rate": 5e-4}
    made = config("sft", NAME, sft=sft, iterations=4, environment={"mix": [{"name": "BanditRev", "share": 0.5}]})
    assert run_factory.run(made, folder, folder / "cache").reason == "completed"
    return folder


def test_imitation_lowers_its_loss(imitated: Path) -> None:
    losses = values(imitated, "sft/loss")
    assert len(losses) == 4
    assert sum(losses[2:]) < sum(losses[:2]), "the second pass over the same demonstrations"


@pytest.fixture(scope="module")
def trained(imitated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three iterations that was stopped after two and resumed."""
    folder = tmp_path_factory.mktemp("rl")
    algorithm = {"estimator": "grpo", "group_filter": "std", "group_filter_keep": 0.75, "clip_high": 0.28}
    made = config(
        "train",
        str(imitated),
        rollout={"groups": 2, "group_size": 4},
        algorithm=algorithm,
        optimizer={"policy_lr": 3e-5, "mini_batch_trajectories": 8},
        iterations=3,
    )

    def stop() -> bool:
        return len({event.iteration for event in events(folder, Metrics)}) >= 2

    first = run_factory.run(made, folder, folder / "cache", stop)
    assert first.reason == "interrupted"
    assert run_factory.run(made, folder, folder / "cache").reason == "completed"
    return folder


def test_a_stopped_run_is_resumed_to_its_end(trained: Path) -> None:
    iterations = [event.iteration for event in events(trained, Metrics)]
    assert set(iterations) >= {1, 2, 3}
    for gap in values(trained, "mismatch/k3"):
        assert 0 <= gap < 1e-2, "log-probabilities of sampler and learner"


def test_the_exported_policy_is_the_same_in_plain_transformers(trained: Path, tmp_path: Path) -> None:
    source = export(trained, tmp_path / "out")
    mine = load(source, PolicyConfig(device="cpu"))
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    ids = torch.tensor([mine.tokenizer.encode(SENTENCES[0])])
    with torch.no_grad():
        torch.testing.assert_close(mine.model(ids).logits, plain(ids).logits, rtol=0, atol=0)
