"""Loading a policy: accepted formats, and refusals with advice."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.trainer import tiny
from trainer.config.run import PolicyConfig
from trainer.policy import load as load_module
from trainer.policy.critic import Critic
from trainer.policy.load import ModelError, Policy, describe_device, load, pick_device, slow_precision_notice

COMMIT = "a" * 40


@pytest.fixture
def folder(pocket_folder, tmp_path):
    """A copy of the pocket checkpoint, to be damaged."""
    return shutil.copytree(pocket_folder, tmp_path / "model")


def refuse(source, message):
    with pytest.raises(ModelError, match=message) as refusal:
        load(source, PolicyConfig())
    assert "policy.model" in str(refusal.value)


def test_a_checkpoint_of_either_architecture_becomes_a_policy(pocket_folder, llama_folder):
    for source in (pocket_folder, llama_folder):
        policy = load(source, PolicyConfig(dtype="float32"))
        assert policy.parameters == sum(p.numel() for p in policy.model.parameters())
        assert policy.model.dtype == torch.float32
        assert not policy.model.training
        assert 0 <= policy.pad_id < policy.model.config.vocab_size
    assert load(pocket_folder, PolicyConfig()).context == 2048
    assert load(llama_folder, PolicyConfig()).context == 4096
    assert load(pocket_folder, PolicyConfig(dtype="bfloat16")).model.dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["/no/such/folder", "./missing", "just-a-name", "a/b/c"])
def test_a_missing_folder_is_reported(name):
    refuse(name, "there is no folder .* Give 'pocket'")


def test_an_unavailable_hub_id_is_reported(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refuse("no-owner/no-such-model-at-all", "cannot be loaded")


def test_pickled_weights_are_refused(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    refuse(folder, r"holds no \*\.safetensors file")


def test_an_empty_folder_is_refused(tmp_path):
    refuse(tmp_path, r"holds no \*\.safetensors file")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_damaged_file_is_refused(folder, file):
    (folder / file).write_bytes((folder / file).read_bytes()[:50])
    refuse(folder, "cannot be loaded")


@pytest.mark.parametrize(
    "file, complaint", [("config.json", "cannot be loaded"), ("tokenizer.json", "cannot write plain text")]
)
def test_a_missing_file_is_refused(folder, file, complaint):
    (folder / file).unlink()
    refuse(folder, complaint)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    folder = tiny.save_llama(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).unlink()
    refuse(folder, r"there is no tokenizer\.json, .* add that of the original model")


def test_missing_weights_are_not_initialised(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refuse(folder, "lacks 1 of its weights, model.layers.1.mlp.up_proj.weight for one")


def test_an_unknown_architecture_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard_of"}))
    refuse(folder, "unheard_of")


def test_remote_code_of_a_model_is_never_run(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write('ran')")
    refuse(folder, "needs Python code from its repository, which is never run here")
    assert not (tmp_path / "ran").exists()


def test_a_tokenizer_without_a_chat_template_is_refused(folder):
    (folder / "chat_template.jinja").unlink()
    refuse(folder, "no chat template: choose an instruction-tuned")


def test_a_tokenizer_without_an_end_token_is_refused(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    refuse(folder, "no end-of-sequence token")


def test_an_architecture_that_transforms_its_logits_is_refused(folder, monkeypatch):
    monkeypatch.setattr("trainer.policy.head.output_head.logit_scale", lambda config: 0.5)
    refuse(folder, "transforms its logits")


def test_a_model_that_cannot_be_run_is_refused(folder, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("The size of tensor a (4) must match the size of tensor b (8)")

    monkeypatch.setattr("transformers.Qwen2Model.forward", fail)
    refuse(folder, "cannot compute the logits of three tokens .*size of tensor a")


def test_memory_that_runs_out_is_not_taken_for_an_incomplete_model(folder, monkeypatch):
    def exhausted(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.Qwen2Model.forward", exhausted)
    with pytest.raises(torch.OutOfMemoryError):
        load(folder, PolicyConfig(device="cpu"))


def test_an_architecture_without_a_causal_lm_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "vit"}))
    refuse(folder, "architecture vit, which is no causal LM")


def test_a_missing_gpu_is_reported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match="PyTorch sees no GPU"):
        pick_device("cuda")
    assert pick_device("auto") == pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("threads", "words"), [(1, "CPU, 1 thread"), (4, "CPU, 4 threads")])
def test_a_processor_is_described_with_its_threads(monkeypatch, threads, words):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert describe_device(torch.device("cpu")) == words


@pytest.mark.parametrize(
    ("dtype", "capabilities", "slow"),
    [
        ("bfloat16", {"avx512_bf16": False, "amx_bf16": False, "avx2": True}, True),
        ("bfloat16", {"avx512_bf16": True, "amx_bf16": False}, False),
        ("bfloat16", {"bf16": True}, False),
        ("float32", {"avx2": True}, False),
    ],
)
def test_bfloat16_on_a_processor_without_it_is_advised_against(pocket_folder, monkeypatch, dtype, capabilities, slow):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    notice = slow_precision_notice(load(pocket_folder, PolicyConfig(dtype=dtype, device="cpu")).model)
    assert bool(notice) == slow
    assert not notice or "policy.dtype=float32" in notice


def test_a_critic_has_its_own_weights(policy):
    critic = Critic(policy.model)
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.add_(1.0)
    fresh = Critic(policy.model)
    assert not torch.equal(next(critic.backbone.parameters()), next(policy.model.base_model.parameters()))
    assert torch.equal(next(fresh.backbone.parameters()), next(policy.model.base_model.parameters()))


@pytest.fixture
def hub_files(tmp_path, monkeypatch):
    """Folder of the files of `someone/model` in the cache of an unreachable hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    repository = tmp_path / "models--someone--model"
    files, main = repository / "snapshots" / COMMIT, repository / "refs" / "main"
    files.mkdir(parents=True)
    main.parent.mkdir()
    main.write_text(COMMIT)
    return files


def test_a_model_of_a_hub_is_loaded(pocket_folder, hub_files):
    shutil.copytree(pocket_folder, hub_files, dirs_exist_ok=True)
    assert load("someone/model", PolicyConfig()).parameters == load(pocket_folder, PolicyConfig()).parameters


def test_another_revision_of_a_hub_id_is_another_model(pocket_folder, llama_folder, hub_files):
    """A tag in the cache names its own commit; main names another one."""
    shutil.copytree(pocket_folder, hub_files, dirs_exist_ok=True)
    tagged = hub_files.with_name("b" * 40)
    shutil.copytree(llama_folder, tagged)
    (hub_files.parents[1] / "refs" / "v2").write_text(tagged.name)
    model = "someone/model"
    assert load(model, PolicyConfig(model=model)).parameters == load(pocket_folder, PolicyConfig()).parameters
    second = load(model, PolicyConfig(model=model, revision="v2"))
    assert second.parameters == load(llama_folder, PolicyConfig()).parameters
    refuse_version = PolicyConfig(model=model, revision="v3")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(model, refuse_version)


def test_an_adapter_on_a_hub_cannot_name_a_folder_of_this_machine_as_its_base(pocket_folder, hub_files):
    """transformers would load that base model, whatever folder it is in."""
    shutil.copy(Path(pocket_folder) / "config.json", hub_files)
    (hub_files / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(pocket_folder)}))
    refuse("someone/model", r"'someone/model' holds an adapter .*merge it")


def test_an_adapter_is_refused_although_the_hub_did_not_answer_the_question(pocket_folder, hub_files, monkeypatch):
    """The question and the download are apart: the hub may come back, or its branch change, in between."""
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(pocket_folder)
    adapter = peft.get_peft_model(base, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    adapter.save_pretrained(hub_files)
    shutil.copy(Path(pocket_folder) / "config.json", hub_files)
    assert load_module.find_adapter_config_file("someone/model") is not None
    monkeypatch.setattr(load_module, "find_adapter_config_file", lambda name, **settings: None)
    refuse("someone/model", r"'someone/model' holds an adapter .*merge it")


def test_weights_of_a_float32_checkpoint_are_aligned(policy: Policy, tmp_path: Path) -> None:
    """Unaligned, as they lie in the mapped file, some kernels would round them differently after a resume."""
    policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    loaded = load(tmp_path, PolicyConfig())
    assert {parameter.data_ptr() % 64 for parameter in loaded.model.parameters()} == {0}
    pairs = zip(loaded.model.parameters(), policy.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    embeddings = loaded.model.get_input_embeddings().weight
    assert embeddings is loaded.model.get_output_embeddings().weight, "tied as before"
