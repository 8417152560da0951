"""Memory estimates against measurements: weights, moments and caches exactly, activations as saved by autograd."""

import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

import envs
from envs.registry import BUILT_IN
from tests.trainer import tiny
from tests.trainer.learner.test_learner import batch_of, learner_for
from tests.trainer.models import tiny_gguf
from trainer.config.engine import CPU_CACHE_VARIABLE
from trainer.config.files import load_preset, preset_names
from trainer.config.run import POCKET, LoraConfig, PolicyConfig, RunConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers import transformers_sampler as sampling
from trainer.engines.transformers.kv_cache import KVCache
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.learner import micro_batches
from trainer.learner.learner import Learner
from trainer.memory import activations, estimate
from trainer.memory.activations import ActivationBytes
from trainer.memory.advice import table
from trainer.policy import gradient_checkpointing, lora_adapters, shapes
from trainer.policy.critic import Critic
from trainer.policy.head import token_logprobs
from trainer.policy.load import load
from trainer.policy.packing import attention
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.packing.shared_prefix import SharedPrefix
from trainer.policy.shapes import ModelShape
from trainer.rollout.prompts import opening_message, repeated_line, state_message

SIZES = {
    "vocab_size": 500,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "attn_implementation": "sdpa",
}
KINDS = {
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=24, tie_word_embeddings=False),
    "llama": LlamaConfig(**SIZES, tie_word_embeddings=False),
    "llama with biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
}
PAPER = [name for name in preset_names() if name.endswith("-paper")]


def built(kind, device="cpu", dtype=torch.float32):
    with torch.device(device):
        return AutoModelForCausalLM.from_config(KINDS[kind]).to(dtype)


def size_of(tensors):
    return sum(tensor.nbytes for tensor in tensors)


def part(config, shape, start, gpu=False):
    return sum(one.size for one in estimate.estimate_memory(config, shape, gpu=gpu).parts if one.name.startswith(start))


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_of_a_model_is_estimated(kind):
    shape = shapes.read(KINDS[kind].to_dict())
    real = sorted(tuple(weight.shape) for weight in built(kind, "meta").parameters())
    assert sorted(shape.tensors()) == real


def test_a_warm_up_needs_the_memory_of_the_same_imitation_and_counts_where_it_is_larger():
    shape = shapes.read(KINDS["qwen2"].to_dict())
    sections = {
        "policy": {"model": "org/model"},
        "environment": {"name": "BanditRev"},
        "rollout": {"groups": 1, "group_size": 2, "max_turns": 1},
        "sft": {"warmup_steps": 4, "batch": 64, "demonstrations": 16, "mix": [{"name": "ToolMCP", "share": 0.5}]},
        "evaluation": {"prompts": 1},
    }
    large = RunConfig.model_validate(sections)
    plain = large.model_copy(update={"sft": large.sft.model_copy(update={"warmup_steps": 0})})
    imitation = large.model_copy(update={"kind": "sft"})
    estimates = {
        name: estimate.estimate_memory(config, shape, gpu=False)
        for name, config in (("warm-up", large), ("plain", plain), ("sft", imitation))
    }
    assert estimates["warm-up"].worst == "warmup"
    assert estimates["warm-up"].peak == estimates["sft"].peak > estimates["plain"].peak
    for stage in estimate.ALWAYS:
        assert estimates["warm-up"].at(stage) == estimates["plain"].at(stage)
    few = imitation.model_copy(update={"sft": imitation.sft.model_copy(update={"batch": 16})})
    assert estimate.step_tokens(few, shape) == estimate.step_tokens(imitation, shape), "there are no more"
    assert "in the warm-up" in table(estimates["warm-up"])
    assert "in the warm-up" not in table(estimates["plain"])
    small = large.model_copy(update={"sft": large.sft.model_copy(update={"batch": 1, "mix": []})})
    assert estimate.estimate_memory(small, shape, gpu=False).peak == estimates["plain"].peak


@pytest.mark.parametrize(
    ("group_filter", "others", "rows"),
    [("std", [], 10), ("std", ["FrozenLake"], 15), ("soft", [], 20), ("none", [], 20)],
)
def test_groups_that_a_filter_always_drops_are_not_learned(group_filter, others, rows):
    """Each environment of a mixture rounds its share up: of 2 + 2 groups, 1 + 1 are kept, of 1 + 3, 1 + 2."""
    sections = {
        "environment": {"name": "Sokoban", "mix": [{"name": name, "share": 0.5} for name in others]},
        "rollout": {"groups": 4, "group_size": 5},
        "algorithm": {"group_filter": group_filter, "group_filter_keep": 0.5},
        "optimizer": {"mini_batch_trajectories": 100},
    }
    assert estimate.step_rows(RunConfig.model_validate(sections)) == rows


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_every_adapter_is_estimated(kind):
    model, shape = built(kind), shapes.read(KINDS[kind].to_dict())
    lora_adapters.attach_adapters(model, LoraConfig(rank=4), 0)
    assert sorted(shape.adapters(4)) == sorted(tuple(weight.shape) for weight in lora_adapters.trainable(model))


def test_the_half_billion_model_has_the_right_parameter_count():
    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
    )
    known = shapes.find_shape("Qwen/Qwen2.5-0.5B-Instruct")
    assert known == shapes.read(config.to_dict())
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert known.parameters == sum(weight.numel() for weight in model.parameters()) == 494_032_768
    assert shapes.named_shape("Qwen2.5-7B").parameters == 7_615_616_512


def test_shapes_are_found_by_name_in_folders_and_in_runs(pocket_folder, tmp_path):
    assert shapes.find_shape(POCKET).hidden == 128
    real = load(pocket_folder, PolicyConfig())
    assert shapes.find_shape(str(pocket_folder)).parameters == real.parameters
    saved = tmp_path / "checkpoints" / "000002"
    saved.mkdir(parents=True)
    (saved / "config.json").write_text((pocket_folder / "config.json").read_text())
    assert shapes.find_shape(str(tmp_path)) == shapes.find_shape(str(pocket_folder))
    assert shapes.find_shape("someone/Else-13B") is None


@pytest.mark.parametrize("text", ["", "[]", '{"hidden_size": 8}', '{"hidden_size": null, "num_attention_heads": 0}'])
def test_a_folder_with_an_incomplete_config_has_no_shape(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert shapes.find_shape(str(tmp_path)) is None


@pytest.mark.parametrize("name", ["x" * 5000, "\0", "", "~/none", "/proc/1/root/none"])
def test_impossible_folder_names_have_no_shape(name):
    assert shapes.find_shape(name) is None


WHATEVER = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*SIZES, "head_dim", "model_type", "text_config", "mlp_bias"]), WHATEVER))
def test_any_config_json_gives_a_usable_shape_or_none(changes):
    found = shapes.read(KINDS["qwen2"].to_dict() | changes)
    assert found is None or found.parameters > 0


@pytest.mark.parametrize("name", ["adamw", "adafactor", "sgd", "muon"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_gradients_and_moments_are_estimated_exactly(pocket_folder, name, dtype, monkeypatch):
    sections = {"policy": {"dtype": dtype}, "algorithm": {"estimator": "gae"}, "optimizer": {"name": name}}
    config, policy = tiny.config(pocket_folder, **sections), load(pocket_folder, PolicyConfig(dtype=dtype))
    learner, shape = Learner(config, policy), shapes.find_shape(str(pocket_folder))
    sides = {
        name: (part.weights, part.optimizer, {"policy": policy.model, "critic": learner.critic}[name])
        for name, part in learner.trainable.items()
    }
    gradients = {}

    def watched(who):
        optimizer = sides[who][1]
        step = optimizer.step

        def stepping(*arguments, **named):
            gradients[who] = size_of(weight.grad for weight in sides[who][0].parameters)
            return step(*arguments, **named)

        monkeypatch.setattr(optimizer, "step", stepping)

    watched("policy")
    watched("critic")
    learner.update(batch_of(learner, [1, 0, 0, 0, 0, 1]), 1)
    for who, (weights, optimizer, module) in sides.items():
        parts = getattr(optimizer, "parts", (optimizer,))
        states = [state for one in parts for state in one.state.values()]
        moments = [value for state in states for key, value in state.items() if key != "step"]
        assert part(config, shape, f"gradients of the {who}") == gradients[who]
        assert part(config, shape, f"optimiser's state of the {who}") == size_of(moments)
        assert part(config, shape, f"float32 copy of the {who}'s") == size_of(weights.state() or [])
        assert part(config, shape, f"weights of the {who}") == size_of(module.parameters())


def test_a_shared_critic_costs_its_adapters_and_head(pocket_folder):
    learner = learner_for(pocket_folder, lora={"rank": 4}, algorithm={"estimator": "gae"})
    shape = shapes.find_shape(str(pocket_folder))
    assert part(learner.config, shape, "adapters of the critic") == size_of(lora_adapters.trainable(learner.critic))
    assert part(learner.config, shape, "adapters of the policy") == size_of(
        lora_adapters.trainable(learner.policy.model)
    )
    assert part(learner.config, shape, "weights of the policy") == size_of(
        weight for weight in learner.policy.model.parameters() if not weight.requires_grad
    )


def test_a_critic_of_an_untied_model_has_no_output_layer():
    model = built("llama")
    shape = shapes.read(KINDS["llama"].to_dict())
    config = RunConfig.model_validate({"algorithm": {"estimator": "gae"}})
    assert part(config, shape, "weights of the critic") == size_of(Critic(model).parameters())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_rollout_cache_is_estimated_exactly(pocket_folder, dtype):
    policy = load(pocket_folder, PolicyConfig(dtype=dtype))
    sampler = TransformersSampler(policy.model, policy.tokenizer.eos_token_id, policy.pad_id, threads=0)
    session = sampler.session([1, 2, 3], SamplingParams(max_tokens=5))
    list(session.generate({row: [5, 6, 7 + row] for row in range(3)}))
    buffers = [buffer for layer in session.cache.layers for buffer in (layer.keys, layer.values)]
    shape = shapes.find_shape(str(pocket_folder))
    assert estimate.cache_bytes(shape, 3, session.cache.capacity, policy.model.dtype.itemsize) == size_of(buffers)


def test_the_estimated_cache_grows_like_the_samplers():
    shape = shapes.named_shape("Qwen2.5-0.5B")
    config = RunConfig.model_validate({"rollout": {"max_turns": 7, "max_response_tokens": 321}})
    store = KVCache(1, 1)
    for length in estimate.dialogue_lengths(config, shape):
        store.reserve(length)
    assert estimate.reserved_tokens(config, shape) == store.capacity


def saved_by(model, tokens, rows=3, packed=None):
    """Bytes saved by autograd in a forward pass, without weights and tensors outside the layers."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), storage)
        return tensor

    ids = torch.zeros(rows, tokens // rows, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        if packed is None:
            hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        else:
            hidden = packed.compute_hidden(model.base_model, ids)
    assert hidden.requires_grad
    return sum(size for size, _ in kept.values())


def each_layer(kind, dtype, rank, tokens=150, packed=None):
    """Bytes that a layer saves per token: three layers minus two."""
    found = []
    for layers in (2, 3):
        config = KINDS[kind].__class__(**KINDS[kind].to_dict() | {"num_hidden_layers": layers, "layer_types": None})
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").to(dtype)
        if rank:
            lora_adapters.attach_adapters(model, LoraConfig(rank=rank), 0)
        if packed is not None:
            attention.prepare(model)
        found.append(saved_by(model, tokens, packed=packed))
    return (found[1] - found[0]) / (tokens if packed is None else len(packed.source))


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rank", [0, 4])
def test_saved_activations_of_a_layer_are_estimated_exactly(kind, dtype, rank):
    shape = shapes.read(KINDS[kind].to_dict())
    assert activations.layer(shape, ActivationBytes(dtype.itemsize, rank)) == each_layer(kind, dtype, rank)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rank", [0, 4])
def test_saved_activations_of_rows_with_a_shared_prefix_are_estimated(dtype, rank):
    packed = PackedBatch.of(torch.ones(3, 50, dtype=torch.bool), [[SharedPrefix((0, 1, 2), 0, 30)]])
    shape = shapes.read(KINDS["qwen2"].to_dict())
    read = (30 + 3 * 50) / (30 + 3 * 20)  # by the shared prefix, and by each row with its own tokens
    foreseen = activations.layer(shape, ActivationBytes(dtype.itemsize, rank, packed=True, read=read))
    assert each_layer("qwen2", dtype, rank, packed=packed) == foreseen


def test_saved_activations_with_head_norms_are_estimated_within_a_tenth():
    shape = shapes.read(KINDS["qwen3"].to_dict())
    for dtype in (torch.float32, torch.bfloat16):
        real = each_layer("qwen3", dtype, 0)
        assert real <= activations.layer(shape, ActivationBytes(dtype.itemsize)) <= 1.1 * real


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_recomputed_layers_keep_their_inputs(dtype):
    model, tokens = built("qwen2", dtype=dtype), 300
    gradient_checkpointing.checkpoint_layers(model)
    shape = shapes.read(KINDS["qwen2"].to_dict())
    foreseen = tokens * activations.saved(shape, ActivationBytes(dtype.itemsize, checkpointed=True))
    assert 0.6 * foreseen <= saved_by(model, tokens) <= 1.2 * foreseen


def test_constants_match_those_of_other_modules():
    assert estimate.PREFILL_TOKENS == sampling._MAX_PREFILL_TOKENS
    assert estimate.MAX_LOGITS == token_logprobs.MAX_LOGITS
    assert estimate.MAX_KEYS_PER_TOKEN == micro_batches.MAX_KEYS_PER_TOKEN
    assert estimate.MAX_CPU_TOKENS == micro_batches.MAX_CPU_TOKENS


def smollm2_tokenizer():
    return Tokenizer.from_str(
        json.dumps({key: value for key, value in tiny_gguf.smollm2().items() if key != "chat_template"})
    )


def turn_lengths(config):
    """Tokens of the user message of a later turn, with the roles of a chat template, on three puzzles."""
    environment = config.environment
    env, tokenizer = envs.make(environment.name, environment.settings), smollm2_tokenizer()
    spec, cells = envs.spec(environment.name, environment.settings), environment.cells
    for seed in range(3):
        env.reset(seed=seed)
        state = spec.located(env.render()) if cells == "located" else spec.spaced(env.render())
        message = state_message(
            state, turn=1, actions_left=5, last_reward=-0.1, format_line=repeated_line(config.rollout)
        )
        yield len(
            tokenizer.encode(f"<|im_end|>\n<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n<think>")
        )


@pytest.mark.parametrize("environment", BUILT_IN)
def test_states_and_openings_of_built_in_environments_have_the_estimated_length(environment):
    config = RunConfig.model_validate({"environment": {"name": environment}})
    assert max(turn_lengths(config)) <= estimate.state_tokens(config)
    opening = opening_message(envs.spec(environment), config.rollout)
    limit = estimate.OPENING_TOKENS.get(environment, estimate.DEFAULT_OPENING_TOKENS)
    assert len(smollm2_tokenizer().encode(opening).ids) < limit


@pytest.mark.parametrize("environment", estimate.SQUARE_GRIDS)
@pytest.mark.parametrize("size", [7, 10])
@pytest.mark.parametrize(("cells", "line"), [("spaced", "example"), ("located", "example"), ("spaced", "paper")])
def test_states_of_grids_have_about_the_estimated_length(environment, size, cells, line):
    sections = {"environment": {"name": environment, "settings": {"size": size}, "cells": cells}}
    config = RunConfig.model_validate(sections | {"rollout": {"format_line": line}})
    longest = max(turn_lengths(config))
    assert longest <= estimate.state_tokens(config) <= 1.7 * longest


@pytest.mark.parametrize(
    ("environment", "largest"),
    [("Sudoku", {"size": 9}), ("Game2048", {"size": 6, "target": 2048}), ("RubiksCube", {"size": 3})],
)
def test_states_of_the_largest_puzzles_have_the_estimated_length(environment, largest):
    env = envs.make(environment, largest)
    state = env.reset(seed=1)[0]
    limit = estimate.STATE_TOKENS.get(environment, estimate.DEFAULT_STATE_TOKENS)
    assert len(tiny.styles()["chatml"].encode(state)) < limit


@pytest.mark.parametrize("name", PAPER)
def test_half_a_billion_parameters_fit_a_24_gb_gpu(name):
    config, total = load_preset(name), 24_564 * 2**20  # as nvidia-smi shows cards of 24 GB
    shape = shapes.find_shape(config.policy.model)
    rows = estimate.rows_that_fit(config, shape, gpu=True, free=total, total=total)
    found = estimate.estimate_memory(config, shape, gpu=True, rows=rows, total=total)
    assert shape.parameters == 494_032_768
    assert found.peak < estimate.MAX_SHARE * total
    assert rows >= 16
    assert found.peak > 0.5 * total, "it is no small thing either"


def test_the_peak_is_the_largest_stage():
    config, shape = load_preset("sokoban-starpo-paper"), shapes.named_shape("Qwen2.5-0.5B")
    found = estimate.estimate_memory(config, shape, gpu=True)
    assert found.peak == max(found.at(stage) for stage in estimate.STAGES)
    assert found.at("play") < sum(one.size for one in found.parts)
    names = [one.name for one in found.largest("play")]
    assert not any(name.startswith(("gradients", "activations")) for name in names)


def changed(config, **sections):
    data = config.model_dump()
    for name, values in sections.items():
        data[name] |= values
    return RunConfig.model_validate(data)


@pytest.mark.parametrize(
    ("sections", "smaller"),
    [
        ({"optimizer": {"gradient_checkpointing": True}}, True),
        ({"optimizer": {"micro_batch_tokens": 1024}}, True),
        ({"policy": {"dtype": "bfloat16"}}, True),
        ({"lora": {"rank": 64}}, True),
        ({"algorithm": {"kl_coef": 0.001}}, False),
        ({"optimizer": {"name": "adafactor"}}, True),
    ],
)
def test_settings_change_the_estimate_in_the_expected_direction(sections, smaller):
    shape = shapes.named_shape("Qwen2.5-0.5B")
    base = RunConfig.model_validate({"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}})
    before, after = (estimate.estimate_memory(one, shape, gpu=True).peak for one in (base, changed(base, **sections)))
    assert (after < before) == smaller
    assert after != before


def test_evaluations_need_no_optimiser_and_servers_no_local_sampler():
    shape = shapes.named_shape("Qwen2.5-0.5B")
    evaluation_run = RunConfig(kind="evaluate")
    assert (
        estimate.estimate_memory(evaluation_run, shape, gpu=True).at("learn")
        < 4 * shape.parameters + 2 * estimate.CUDA_CONTEXT
    )
    served = changed(evaluation_run, engine={"name": "server", "urls": ["http://gpu:8000"]})
    assert (
        estimate.estimate_memory(served, shape, gpu=True).peak
        < estimate.estimate_memory(evaluation_run, shape, gpu=True).peak
    )


def test_vllm_uses_its_share_and_frees_it_in_sleep_mode():
    shape, total = shapes.named_shape("Qwen2.5-0.5B"), 40 * estimate.GB
    config = RunConfig(engine={"name": "vllm", "gpu_memory_utilization": 0.5})
    found = estimate.estimate_memory(config, shape, gpu=True, total=total)
    share = next(one for one in found.parts if one.name.startswith("vLLM"))
    assert share.size == total // 2
    assert share.stages == ("play",)


@pytest.mark.parametrize(("space", "gibibytes"), [(None, 1), ("6", 6)])
def test_vllm_on_a_cpu_has_the_cache_that_its_variable_says(monkeypatch, space, gibibytes):
    shape, config = shapes.named_shape("Qwen2.5-0.5B"), RunConfig(engine={"name": "vllm"})
    monkeypatch.delenv(CPU_CACHE_VARIABLE, raising=False)
    if space:
        monkeypatch.setenv(CPU_CACHE_VARIABLE, space)
    found = estimate.estimate_memory(config, shape, gpu=False)
    cached = next(one for one in found.parts if one.name.startswith("vLLM")).size - 4 * shape.parameters
    assert cached == gibibytes * 2**30


def test_an_unusable_size_of_vllms_cache_is_refused(monkeypatch):
    monkeypatch.setenv(CPU_CACHE_VARIABLE, "lots")
    with pytest.raises(ValueError, match="VLLM_CPU_KVCACHE_SPACE must be a whole number of GiB above 0, not 'lots'"):
        _ = RunConfig().engine.cpu_cache_bytes


def test_only_sharded_parts_are_divided_among_processes():
    shape = shapes.named_shape("Qwen2.5-0.5B")
    alone = RunConfig()
    split = changed(alone, parallel={"sharding": "full"})
    one, two, four = (estimate.estimate_memory(split, shape, gpu=True, processes=number) for number in (1, 2, 4))
    assert one.parts == estimate.estimate_memory(alone, shape, gpu=True).parts

    def moments(found):
        return sum(kept.size for kept in found.parts if kept.name.startswith(("optimiser's", "gradients")))

    assert moments(two) == pytest.approx(moments(one) / 2)
    assert moments(four) == pytest.approx(moments(one) / 4)
    copies = estimate.estimate_memory(alone, shape, gpu=True, processes=4)
    assert moments(copies) == moments(one)
    assert copies.rows < one.rows


def test_a_rollout_actor_beside_a_learner_has_a_copy_of_the_weights():
    shape = shapes.named_shape("Qwen2.5-0.5B")
    one, pair = (estimate.estimate_memory(RunConfig(), shape, gpu=True, rows=8, processes=count) for count in (1, 2))
    assert pair.peak - one.peak == estimate.weight_bytes(RunConfig()) * shape.parameters + estimate.CUDA_CONTEXT
    actor = estimate.estimate_memory(RunConfig(), shape, gpu=True, rows=8, processes=2, role="play")
    assert "weights of the rollout actor" not in {part.name for part in actor.parts}


@pytest.mark.parametrize(
    "module", ["memory.estimate", "memory.advice", "policy.shapes", "cli.estimate_memory", "memory.available"]
)
def test_the_launch_form_does_not_import_torch(module):
    code = f"import sys, trainer.{module}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_attention_scores_count_where_no_fused_kernel_exists():
    shape = shapes.named_shape("Qwen2.5-0.5B")
    wide, narrow = RunConfig(), RunConfig(policy={"dtype": "bfloat16"})
    assert estimate.passing(wide, shape, gpu=True).scores == estimate.dialogue_tokens(wide, shape)
    assert estimate.passing(wide, shape, gpu=False).scores == 0
    assert estimate.passing(narrow, shape, gpu=True).scores == 0
    one_head_each = ModelShape(64, 2, 4, 4, 16, 128, 500, 512)
    assert estimate.passing(wide, one_head_each, gpu=True).scores == 0
