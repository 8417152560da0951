"""GGUF files of every supported family and common formats, imported and compared with the models they were made of."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Q
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedModel

from tests.trainer.models import tiny_gguf
from tests.trainer.models.tiny_gguf import Words
from trainer.config.run import PolicyConfig
from trainer.models import store
from trainer.models.conversion import gguf_conversion
from trainer.models.importing import ImportOptions, import_model
from trainer.models.store import ModelStoreError
from trainer.policy.load import load

TEXTS = (
    "Turn 1: 12345 + 67.89",
    "  two  spaces    four\n\n\n\tTab\r\n",
    "é naïve √2 ≠ 3, e\u0301, 中文, 😀 👨‍👩‍👧",
    "<think>I'm at 2,3.</think><answer>Up || Down</answer>",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "____\n_O_P\n######",
)


@pytest.fixture(autouse=True)
def models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    monkeypatch.setenv("ECHOSCOPE_MODELS", str(folder))
    return folder


def words_of(architecture: str) -> Words:
    made = {"llama": tiny_gguf.smollm2_words, "gemma3": tiny_gguf.gemma_words}
    return made.get(architecture, tiny_gguf.qwen_words)()


def logits(model: PreTrainedModel, count: int = 24) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.arange(3, 3 + count)[None]).logits


@pytest.mark.parametrize(
    ("architecture", "quantisation"),
    [
        ("llama", Q.F32),
        ("llama", Q.Q4_1),
        ("llama", Q.Q8_0),
        ("qwen2", Q.F16),
        ("qwen2", Q.Q5_0),
        ("qwen3", Q.Q4_0),
        ("qwen3", Q.Q8_0),
        ("gemma3", Q.BF16),
        ("gemma3", Q.Q5_1),
    ],
)
def test_an_imported_model_computes_the_logits_of_the_original(
    architecture: str, quantisation: Q, tmp_path: Path
) -> None:
    words = words_of(architecture)
    model = tiny_gguf.tiny_model(architecture, len(words.tokens))
    path = tmp_path / f"Tiny-{architecture}.{quantisation.name}.gguf"
    tiny_gguf.write(path, model, architecture, words, quantisation)

    installed = import_model([path], options=ImportOptions("float32"))

    assert installed.name == f"tiny-{architecture}"
    assert installed.record is not None
    assert installed.record.quantisation == ("" if quantisation in (Q.F32, Q.F16, Q.BF16) else quantisation.name)
    assert installed.licence == "apache-2.0"
    policy = load(installed.name, PolicyConfig(device="cpu"))
    torch.testing.assert_close(logits(policy.model), logits(model), rtol=1e-4, atol=1e-4)
    assert policy.context == 512


def test_two_copies_of_the_embedding_become_the_finer_one(tmp_path: Path) -> None:
    words = tiny_gguf.qwen_words()
    model = tiny_gguf.tiny_model("qwen2", len(words.tokens))
    embedding = model.get_input_embeddings().weight.detach().clone()
    path = tmp_path / "tiny.gguf"
    tiny_gguf.write(path, model, "qwen2", words, Q.Q4_0, extra={"output.weight": embedding.numpy()})
    policy = load(import_model([path], options=ImportOptions("float32")).path, PolicyConfig(device="cpu"))
    assert policy.model.config.tie_word_embeddings
    assert torch.equal(policy.model.get_input_embeddings().weight, embedding)
    other = torch.randn_like(embedding) * 0.1
    tiny_gguf.write(tmp_path / "untied.gguf", model, "qwen2", words, Q.Q4_0, extra={"output.weight": other.numpy()})
    untied = load(import_model([tmp_path / "untied.gguf"]).path, PolicyConfig(device="cpu"))
    assert torch.equal(untied.model.get_output_embeddings().weight, other.bfloat16().float())


def test_positions_of_llama_3_are_recovered_from_its_factors(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    words = tiny_gguf.smollm2_words()
    model = tiny_gguf.tiny_model("llama", len(words.tokens), rope_parameters=scaling, max_position_embeddings=131_072)
    plain = 500_000.0 ** -(torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    factors = (plain / model.model.rotary_emb.inv_freq).float().numpy()
    path = tmp_path / "tiny.gguf"
    tiny_gguf.write(path, model, "llama", words, extra={"rope_freqs.weight": factors})
    installed = import_model([path])
    assert json.loads((installed.path / "config.json").read_text())["rope_parameters"] == scaling
    tiny_gguf.write(path, model, "llama", words, extra={"rope_freqs.weight": np.flip(factors).copy()})
    with pytest.raises(ModelStoreError, match="factors other than Llama 3's"):
        import_model([path], "other")


def test_the_tokenizer_of_smollm2_is_that_of_the_original(tmp_path: Path) -> None:
    words = tiny_gguf.smollm2_words()
    model = tiny_gguf.tiny_model("llama", len(words.tokens))
    tiny_gguf.write(tmp_path / "tiny.gguf", model, "llama", words)
    imported = AutoTokenizer.from_pretrained(import_model([tmp_path / "tiny.gguf"]).path)
    data = json.loads(json.dumps(tiny_gguf.smollm2()))
    template = data.pop("chat_template")
    kept = set(words.tokens)
    data["model"]["vocab"] = {token: number for token, number in data["model"]["vocab"].items() if token in kept}
    data["model"]["merges"] = [merge for merge in data["model"]["merges"] if merge.replace(" ", "") in kept]
    original = Tokenizer.from_str(json.dumps(data))
    for text in TEXTS:
        ids = imported.encode(text, add_special_tokens=False)
        assert ids == original.encode(text, add_special_tokens=False).ids, text
        assert imported.decode(ids) == text
    assert imported.chat_template == template
    assert imported.encode("<|im_end|>", add_special_tokens=False) == [2]
    assert imported.encode("12", add_special_tokens=False) == [words.tokens.index("1"), words.tokens.index("2")]


def test_end_tokens_and_families_without_a_template(tmp_path: Path) -> None:
    words = tiny_gguf.gemma_words()
    tiny_gguf.write(tmp_path / "tiny.gguf", tiny_gguf.tiny_model("gemma3", len(words.tokens)), "gemma3", words)
    folder = import_model([tmp_path / "tiny.gguf"]).path
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [1, 5]
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    assert tokenizer.encode("hello world", add_special_tokens=False) == tokenizer.convert_tokens_to_ids(
        ["hello", "▁world"]
    )
    assert tokenizer.encode("hello")[0] == 2
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    written = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert written == "<bos><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\n"

    words = tiny_gguf.smollm2_words()
    model = tiny_gguf.tiny_model("llama", len(words.tokens))
    tiny_gguf.write(tmp_path / "base.gguf", model, "llama", words, omit=["template"])
    with pytest.raises(ModelStoreError, match=r"no chat template: it is a base model.*--template"):
        import_model([tmp_path / "base.gguf"])
    made = import_model([tmp_path / "base.gguf"], options=ImportOptions(template="chatml"))
    assert "<|im_start|>" in AutoTokenizer.from_pretrained(made.path).chat_template


def test_a_chat_template_with_an_error_is_refused_or_replaced(tmp_path: Path) -> None:
    words = replace(tiny_gguf.smollm2_words(400), template="{% for message in messages %}\n{{ message.content }")
    model = tiny_gguf.tiny_model("llama", len(words.tokens))
    tiny_gguf.write(tmp_path / "tiny.gguf", model, "llama", words)
    with pytest.raises(ModelStoreError, match=r"chat template has an error in line 2 .*--template chatml"):
        import_model([tmp_path / "tiny.gguf"])
    assert import_model([tmp_path / "tiny.gguf"], options=ImportOptions(template="chatml")).name == "tiny"


def test_all_files_of_a_model_can_be_read_by_whoever_can_read_its_record(llama_file: Path) -> None:
    files = list(import_model([llama_file], "shared").path.iterdir())
    assert len(files) > 4
    assert {file.stat().st_mode for file in files} == {llama_file.stat().st_mode}


@pytest.fixture(scope="module")
def llama_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tiny_gguf.smollm2_words(400)
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    tiny_gguf.write(path, tiny_gguf.tiny_model("llama", len(words.tokens)), "llama", words, Q.Q8_0)
    return path


def wheel_without_a_model(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "x.whl", "w") as archive:
        archive.writestr("x/__init__.py", "")
    return folder / "x.whl"


def in_wheels(path: Path, folder: Path, count: int, pattern: str) -> list[Path]:
    """The bytes of a file in several wheels."""
    data, wheels = path.read_bytes(), []
    step = -(-len(data) // count)
    for number in range(count):
        wheels.append(folder / f"part{number}-1-py3-none-any.whl")
        with zipfile.ZipFile(wheels[-1], "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"tiny_part{number}/__init__.py", "")
            archive.writestr(f"tiny_part{number}/data/{pattern.format(number)}", data[number * step :][:step])
    return wheels


@pytest.mark.parametrize("pattern", ["tiny.gguf.part{:02}", "part{:02}.bin", "tiny.gguf.{:03}"])
def test_parts_in_wheels_are_joined_in_any_order(pattern: str, llama_file: Path, tmp_path: Path) -> None:
    wheels = in_wheels(llama_file, tmp_path, 3, pattern)
    requires_them = wheel_without_a_model(tmp_path)
    joined = import_model([wheels[2], requires_them, wheels[0], wheels[1]], "joined")
    whole = import_model([llama_file], "whole")
    weights = "model.safetensors"
    assert (joined.path / weights).read_bytes() == (whole.path / weights).read_bytes()
    assert joined.record is not None
    assert len(joined.record.sha256) == 4  # of all files that were named


def test_a_folder_of_a_checkpoint_in_small_parts_is_installed(llama_file: Path, tmp_path: Path) -> None:
    whole = import_model([llama_file], "whole").path
    parts = tmp_path / "some-model"
    parts.mkdir()
    for file in whole.iterdir():
        if file.name == "model.safetensors":
            data = file.read_bytes()
            (parts / "model.safetensors.part1").write_bytes(data[:1000])
            (parts / "model.safetensors.part2").write_bytes(data[1000:])
        else:
            (parts / file.name).write_bytes(file.read_bytes())
    installed = import_model([parts])
    assert installed.name == "some-model"
    assert (installed.path / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    (parts / "model.safetensors.part2").write_bytes(data[1000:-10])
    with pytest.raises(ModelStoreError, match="cut off"):
        import_model([parts], "cut")


def test_shards_are_one_model(llama_file: Path, tmp_path: Path) -> None:
    words = tiny_gguf.smollm2_words(400)
    model = tiny_gguf.tiny_model("llama", len(words.tokens))
    shards = [tmp_path / f"tiny-0000{number}-of-00002.gguf" for number in (1, 2)]
    tensors = list(tiny_gguf.gguf_tensors(model, "llama").items())
    tiny_gguf.write(tmp_path / "whole.gguf", model, "llama", words)
    reader = gguf.GGUFReader(tmp_path / "whole.gguf")
    for number, shard in enumerate(shards):
        writer = gguf.GGUFWriter(shard, "llama")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(tensors))
        if number == 0:
            for key, value in reader.fields.items():
                if not key.startswith("GGUF.") and key != "general.architecture":
                    sub = value.types[-1] if len(value.types) > 1 else None
                    writer.add_key_value(key, value.contents(), value.types[0], sub)
        for name, array in tensors[number::2]:
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    installed = import_model(list(reversed(shards)), options=ImportOptions("float32"))
    assert installed.name == "tiny"
    policy = load("tiny", PolicyConfig(device="cpu"))
    torch.testing.assert_close(logits(policy.model), logits(model), rtol=1e-4, atol=1e-4)
    with pytest.raises(ModelStoreError, match="shard 2 of 2 is missing"):
        import_model(shards[:1], "half")
    twice = tmp_path / "again.gguf"
    twice.write_bytes(shards[0].read_bytes())
    with pytest.raises(ModelStoreError, match="not two different shards of one model"):
        import_model([shards[0], twice], "twice")


def test_scaled_positions_are_kept(tmp_path: Path) -> None:
    values = {
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 128,
    }
    words = tiny_gguf.smollm2_words(400)
    target = tmp_path / "scaled.gguf"
    tiny_gguf.write(target, tiny_gguf.tiny_model("llama", len(words.tokens)), "llama", words, values=values)
    config = json.loads((import_model([target]).path / "config.json").read_text())
    scaled = config["rope_parameters"]
    assert (scaled["rope_type"], scaled["factor"], scaled["original_max_position_embeddings"]) == ("linear", 4.0, 128)


def test_a_large_model_is_written_in_several_files(
    llama_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = import_model([llama_file], "whole")
    monkeypatch.setattr(gguf_conversion, "_SHARD_BYTES", 40_000)
    parts = import_model([llama_file], "parts")
    index = json.loads((parts.path / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    one, several = (load(model.name, PolicyConfig(device="cpu")).model for model in (whole, parts))
    torch.testing.assert_close(logits(several), logits(one))


UNSUPPORTED: dict[str, tuple[dict[str, str | int | float], list[str]]] = {
    "experts": ({"llama.expert_count": 4}, []),
    "rotation": ({"llama.rope.dimension_count": 8}, []),
    "positions": ({"llama.rope.scaling.type": "su", "llama.rope.scaling.factor": 4.0}, []),
    "embedding": ({}, ["token_embd.weight"]),
}


def damaged(kind: str, path: Path, tmp_path: Path) -> list[Path]:
    """Files that cannot be imported."""
    target = tmp_path / "bad.gguf"
    words = tiny_gguf.smollm2_words(400)
    match kind:
        case "truncated":
            target.write_bytes(path.read_bytes()[:-5000])
        case "header":
            target.write_bytes(path.read_bytes()[:3000])
        case "no gguf":
            target.write_bytes(b"hello" * 100)
        case "architecture":
            target.write_bytes(
                path.read_bytes().replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\x05\0\0\0\0\0\0\0mamba")
            )
        case "missing part":
            return in_wheels(path, tmp_path, 4, "tiny.gguf.part{:02}")[::2]
        case "last part missing":
            return in_wheels(path, tmp_path, 4, "tiny.gguf.part{:02}")[:3]
        case "duplicate part":
            first, *rest = in_wheels(path, tmp_path, 2, "tiny.gguf.part{:02}")
            twice = tmp_path / "again.whl"
            twice.write_bytes(first.read_bytes())
            return [first, *rest, twice]
        case "no model":
            return [wheel_without_a_model(tmp_path)]
        case "no tokenizer":
            tiny_gguf.write(target, tiny_gguf.tiny_model("llama", 400), "llama", words, omit=["tokenizer"])
        case "pre-tokenizer":
            words.pre = "exotic"
            tiny_gguf.write(target, tiny_gguf.tiny_model("llama", 400), "llama", words)
        case "tensor":
            extra = {"blk.0.ffn_gate_inp.weight": np.ones((4, 64), dtype=np.float32)}
            tiny_gguf.write(target, tiny_gguf.tiny_model("llama", 400), "llama", words, extra=extra)
        case "experts" | "rotation" | "positions" | "embedding":
            values, omit = UNSUPPORTED[kind]
            model = tiny_gguf.tiny_model("llama", 400)
            tiny_gguf.write(target, model, "llama", words, omit=omit, values=values)
        case "two models":
            target.write_bytes(path.read_bytes())
            return [path, target]
        case "no end" | "kind of tokenizer":
            omit = ["tokenizer.ggml.eos_token_id"] if kind == "no end" else []
            values = {} if omit else {"tokenizer.ggml.model": "t5"}
            model = tiny_gguf.tiny_model("llama", 400)
            tiny_gguf.write(target, model, "llama", words, omit=omit, values=values)
        case "whole file twice":
            target = tmp_path / "again" / path.name
            target.parent.mkdir()
            target.write_bytes(path.read_bytes())
            return [path, target]
        case "damaged archive":
            (tmp_path / "x.whl").write_bytes(b"PK no archive")
            return [tmp_path / "x.whl"]
        case "no weights" | "no configuration":
            folder = tmp_path / "checkpoint"
            folder.mkdir()
            names = ["config.json"] if kind == "no weights" else ["model.safetensors"]
            for name in names:
                (folder / name).write_bytes(b"{}")
            return [folder]
        case "absent":
            return [tmp_path / "no-such.gguf"]
    return [target]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", "cut off"),
        ("header", "damaged or cut off"),
        ("no gguf", "not a GGUF file"),
        ("architecture", "architecture 'mamba' cannot be imported"),
        ("missing part", "part 1 of tiny.gguf is missing"),
        ("last part missing", "name all parts"),
        ("duplicate part", "part 0 was given twice"),
        ("no model", "no model in x.whl: no GGUF"),
        ("no tokenizer", "has no tokenizer"),
        ("pre-tokenizer", "splits text by 'exotic'"),
        ("tensor", "a tensor 'blk.0.ffn_gate_inp.weight'"),
        ("absent", "there is no file or folder"),
        ("experts", "mixtures of experts cannot be imported"),
        ("rotation", "only 8 of 32 elements of a head are rotated"),
        ("positions", "scales positions by 'su'"),
        ("embedding", "lacks token_embd.weight"),
        ("no end", "no end-of-sequence token"),
        ("kind of tokenizer", "tokenizer of the kind 't5'"),
        ("whole file twice", "was given twice"),
        ("damaged archive", "damaged or cut off"),
        ("no weights", "no GGUF or safetensors file among what was given"),
        ("no configuration", "config.json is missing"),
        ("two models", "are separate models: import one at a time"),
    ],
)
def test_a_file_that_cannot_be_imported_is_explained_and_leaves_nothing(
    kind: str, message: str, llama_file: Path, tmp_path: Path, models_folder: Path
) -> None:
    with pytest.raises(ModelStoreError, match=message):
        import_model(damaged(kind, llama_file, tmp_path), "bad")
    left = list(models_folder.glob("*")) if models_folder.exists() else []
    assert [path.name for path in left if path.name != ".locks"] == []
    assert store.installed() == []


def test_a_name_that_is_taken_is_refused(llama_file: Path) -> None:
    import_model([llama_file])
    with pytest.raises(ModelStoreError, match=r"tiny is already installed.*models remove tiny"):
        import_model([llama_file])
    with pytest.raises(ModelStoreError, match="cannot be a model's name"):
        import_model([llama_file], "../tiny")
