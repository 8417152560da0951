"""Whole runs with LoRA: frozen base, ordinary checkpoints, lossless resume and export."""

import shutil

import peft
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.loops.test_train import count_turns, events, numbers, run, same_weights, weights
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import Metrics
from trainer.journal.protocol import ADAPTER_FOLDER
from trainer.learner.learner import Learner
from trainer.loops.export import export
from trainer.loops.stages import checkpoints
from trainer.policy import lora_adapters
from trainer.policy.chat_format import ChatFormat
from trainer.policy.critic import Critic
from trainer.policy.load import ModelError, load
from trainer.rollout.trajectory import collate

LORA = {"rank": 4, "alpha": 8}
IDS = torch.arange(3, 43)[None]


def settings(folder, **sections):
    """StarPO-S with a critic, adapters on both, two updates per rollout and a KL penalty."""
    data = {
        "iterations": 3,
        "rollout": {"group_size": 4},
        "algorithm": {
            "estimator": "gae",
            "updates_per_rollout": 2,
            "kl_coef": 0.01,
            "group_filter": "std",
            "group_filter_keep": 0.5,
        },
        "optimizer": {"policy_lr": 1e-3, "critic_lr": 1e-2},
        "lora": LORA,
        "evaluation": {"every": 2, "prompts": 2},
    }
    return tiny.config(folder, **data | sections)


@pytest.fixture(scope="module")
def whole(llama_folder, tmp_path_factory):
    config = settings(llama_folder)
    folder = tmp_path_factory.mktemp("lora")
    run(config, folder)
    return config, folder


def test_adapters_learn_and_sampler_and_trainer_agree(whole):
    _, folder = whole
    learnt = [event.values for event in events(folder, Metrics) if "mismatch/k3" in event.values]
    assert len(learnt) == 3
    assert all(values["mismatch/k3"] < 1e-6 for values in learnt)
    assert abs(learnt[0]["policy/kl_to_initial"]) < 1e-6, "fresh adapters are the initial policy"
    assert abs(learnt[-1]["policy/kl_to_initial"]) > 1e-6
    assert all("value/loss" in values for values in learnt)


def test_a_checkpoint_is_a_merged_model_with_the_adapter_beside_it(whole, llama_folder):
    _, folder = whole
    place = checkpoints.get_path(folder, 3)
    model = AutoModelForCausalLM.from_pretrained(place)
    base = AutoModelForCausalLM.from_pretrained(llama_folder)
    assert {name: weight.shape for name, weight in model.named_parameters()} == {
        name: weight.shape for name, weight in base.named_parameters()
    }
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, base.state_dict()[name])}
    assert changed
    assert all("proj" in name for name in changed), "only linear layers have learned"
    adapted = peft.PeftModel.from_pretrained(base, str(place / ADAPTER_FOLDER))
    assert torch.allclose(adapted(input_ids=IDS).logits, model(input_ids=IDS).logits, atol=1e-5)
    assert checkpoints.size(place) > checkpoints.size(place / ADAPTER_FOLDER) > 0


@pytest.mark.parametrize("when", nightly_but([(1, 1), (3, 2)], [(3, 2)]), ids=str)
def test_a_run_stopped_anywhere_equals_an_uninterrupted_one(whole, tmp_path, when):
    (config, unbroken), (iteration, turns) = whole, when
    halves = tmp_path / "halves"
    end = run(config, halves, stop=lambda: count_turns(halves, iteration) > turns)
    assert (end.reason, end.iteration) == ("interrupted", iteration - 1)
    assert run(config, halves).reason == "completed"
    assert numbers(halves) == numbers(unbroken)
    same_weights(weights(halves), weights(unbroken))
    adapters = [checkpoints.get_path(f, 3) / ADAPTER_FOLDER / "adapter_model.safetensors" for f in (halves, unbroken)]
    same_weights(*map(load_file, adapters))
    states = [torch.load(checkpoints.get_path(f, 3) / "learner.pt", weights_only=True) for f in (halves, unbroken)]
    same_weights(states[0]["critic"], states[1]["critic"])


def test_resuming_with_another_rank_or_without_adapters_is_refused(whole, tmp_path):
    config, folder = whole
    for changed, complaint in (({"rank": 8}, "must stay as they were"), ({"rank": 0}, "lora.rank must stay")):
        copy = shutil.copytree(folder, tmp_path / str(changed["rank"]))
        other = config.model_copy(update={"lora": config.lora.model_copy(update=changed), "iterations": 4})
        with pytest.raises(ModelError, match=complaint):
            run(other, copy)


def test_a_run_resumes_from_its_original_base_run(whole, tmp_path):
    _, folder = whole
    config = settings(folder, iterations=1, evaluation={"prompts": 0})
    run(config, tmp_path)
    progress = checkpoints.load_progress(tmp_path, 1)
    assert progress.base == str(checkpoints.get_path(folder, 3))


def test_optimisers_hold_adapters_only_and_the_critic_shares_the_frozen_weights(pocket_folder):
    policy = load(pocket_folder, PolicyConfig())
    learner = Learner(settings(pocket_folder), policy)
    for optimizer in (part.optimizer for part in learner.trainable.values()):
        sizes = sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
        assert sizes < 0.1 * policy.parameters
    own = {id(parameter) for parameter in policy.model.parameters() if not parameter.requires_grad}
    theirs = {id(parameter) for parameter in learner.critic.backbone.parameters() if not parameter.requires_grad}
    assert theirs <= own
    assert isinstance(learner.critic, Critic)
    assert learner.critic.head.weight.requires_grad


def test_the_reference_policy_needs_no_second_model(pocket_folder):
    policy = load(pocket_folder, PolicyConfig())
    before = load(pocket_folder, PolicyConfig())
    learner = Learner(settings(pocket_folder), policy)
    with torch.no_grad():
        for parameter in lora_adapters.trainable(policy.model):
            parameter.add_(0.02)
    assert learner.reference is None
    chat = ChatFormat(policy.tokenizer, think=True)
    played = tiny.episode(chat)
    played.prompt()
    played.receive(tiny.sampled(chat, tiny.answer("Left")))
    batch = collate([played.trajectory], policy.pad_id)
    initial = learner.scorer.reference_logprobs(learner.planner.plan(batch))
    assert torch.equal(initial, learner.score(batch, before).logprobs)
    assert not torch.allclose(initial, learner.score(batch).logprobs, atol=1e-3)


def test_a_step_changes_adapters_only(pocket_folder):
    policy = load(pocket_folder, PolicyConfig())
    learner = Learner(settings(pocket_folder), policy)
    frozen = {name: p.clone() for name, p in policy.model.named_parameters() if not p.requires_grad}
    adapters = lora_adapters.state(policy.model)
    chat = ChatFormat(policy.tokenizer, think=True)
    trajectories = []
    for number in range(4):
        played = tiny.episode(chat)
        played.trajectory.group, played.trajectory.id = number // 2, str(number)
        played.prompt()
        played.receive(tiny.sampled(chat, tiny.answer("Left" if number % 2 else "Up")))
        played.trajectory.turns[-1].reward = float(number)
        trajectories.append(played.trajectory)
    learner.update(collate(trajectories, policy.pad_id), 1)
    assert all(torch.equal(policy.model.get_parameter(name), weight) for name, weight in frozen.items())
    assert any(not torch.equal(adapters[name], weight) for name, weight in lora_adapters.state(policy.model).items())


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_an_exported_policy_matches_the_checkpoint(whole, tmp_path, dtype):
    _, folder = whole
    out = tmp_path / "policy"
    source = export(folder, out, dtype=dtype)
    assert source == checkpoints.get_path(folder, 3)
    model, there = (AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32) for place in (out, source))
    assert torch.allclose(model(input_ids=IDS).logits, there(input_ids=IDS).logits, atol=1e-6 if dtype is None else 0.1)
    assert AutoTokenizer.from_pretrained(out).chat_template
    assert not {file.name for file in out.iterdir()} & {"learner.pt", "state.json", ADAPTER_FOLDER}
    policy = load(out, PolicyConfig())
    chat = ChatFormat(policy.tokenizer, think=True)
    session = TransformersSampler(policy.model, chat.eos_id, policy.pad_id).session([1], SamplingParams(max_tokens=4))
    assert [row for row, _ in session.generate({0: chat.opening("Push.")})] == [0]


def test_the_adapter_alone_can_be_exported(whole, llama_folder, tmp_path):
    _, folder = whole
    export(folder, tmp_path / "adapter", adapter=True)
    base = AutoModelForCausalLM.from_pretrained(llama_folder)
    adapted = peft.PeftModel.from_pretrained(base, str(tmp_path / "adapter"))
    merged = AutoModelForCausalLM.from_pretrained(checkpoints.get_path(folder, 3))
    assert torch.allclose(adapted(input_ids=IDS).logits, merged(input_ids=IDS).logits, atol=1e-5)


def test_unexportable_checkpoints_are_reported(whole, tmp_path):
    _, folder = whole
    with pytest.raises(ValueError, match="holds no checkpoint of a run"):
        export(tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(ValueError, match="no checkpoint of iteration 7; there are 2, 3"):
        export(folder, tmp_path / "out", iteration=7)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(ValueError, match="is not empty"):
        export(folder, tmp_path / "full")


def test_a_run_that_trained_all_weights_has_no_adapter_to_export(pocket_folder, tmp_path):
    run(tiny.config(pocket_folder, iterations=1, evaluation={"prompts": 0}), tmp_path / "run")
    with pytest.raises(ValueError, match="has no adapter"):
        export(tmp_path / "run", tmp_path / "out", adapter=True)
