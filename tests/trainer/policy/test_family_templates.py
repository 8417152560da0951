"""Formats of calls by round trips through chat templates: those of real models, and the end of a turn with calls."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from envs.base import ToolSpec
from envs.tools.call_formats import render_calls
from envs.tools.calls import ToolCall
from tests.trainer import tiny
from tests.trainer.policy.tool_templates import QWEN, tokenizers
from trainer.config.run import RunConfig
from trainer.engines.sampler import SampledResponse, SamplingParams
from trainer.engines.sampler_factory import make_sampler
from trainer.journal import reader
from trainer.journal.events import Notice, TrajectoryFinished
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import load
from trainer.rollout.token_texts import TokenTexts

SCHEMA = {"type": "object", "properties": {"item": {"type": "string", "description": "Its name."}}}
TOOL = ToolSpec(name="price", description="Price of an item.", parameters=SCHEMA)
TOKENIZERS = tokenizers()
UNKNOWN = QWEN.replace("tool_call.arguments | tojson", "tool_call.arguments | length")
"""Writes the number of a call's arguments in their place, so that no format can read the call."""
CALCULATOR = {"name": "ToolCalculator"}


def real_template(name: str) -> str:
    """A chat template of a model, as TRL keeps copies of many."""
    package = find_spec("trl")
    assert package is not None
    assert package.origin is not None
    return (Path(package.origin).parent / "chat_templates" / f"{name}.jinja").read_text()


def tokenizer_of(template: str):
    """A tokenizer with the template, and with the tokens of roles and ends that it names."""
    tokens = r"<[|｜](?!tool)[^<>|｜{}' ]+[|｜]>|<(?:start|end)_of_turn>|<\|[a-z_]+>|<[a-z_]+\|>"
    special = set(re.findall(tokens, template))
    ends = ["<|im_end|>", "<|eot_id|>", "<｜end▁of▁sentence｜>", "<|end|>", "<turn|>", "<eos>"]
    end = next((token for token in ends if token in special), "<eos>")
    tokenizer = tiny.bpe(sorted(special | {end}), template, end)
    tokenizer.bos_token = "<bos>"
    return tokenizer


@pytest.mark.parametrize(
    ("name", "end", "forced"),
    [
        ("llama3", "<|eot_id|>", "<think>"),
        ("llama3_2", "<|eot_id|>", "<think>"),
        ("qwen2_5", "<|im_end|>", "<think>"),
        ("qwen3", "<|im_end|>", "<think>"),
        ("gemma3", "<end_of_turn>", "<think>"),
        ("gemma4", "<turn|>", "<think>"),
        ("phi3", "<|end|>", "<think>"),
        ("phi3_5", "<|end|>", "<think>"),
        ("cohere", "<|END_OF_TURN_TOKEN|>", "<think>"),
        ("glm4moe", "<|user|>", "<think>"),
        ("deepseek_r1_distill", "<｜end▁of▁sentence｜>", ""),
        ("nemotron_3_nano", "<|im_end|>", ""),
    ],
)
def test_a_response_and_the_next_message_are_written_as_templates_of_models_do(name, end, forced):
    tokenizer = tokenizer_of(real_template(name))
    chat = ChatFormat(tokenizer, think=True)
    assert (tokenizer.convert_ids_to_tokens(chat.eos_id), chat.forced) == (end, forced)
    roles = {"user": "first", "assistant": "reply"}
    messages = [*({"role": role, "content": text} for role, text in roles.items()), {"role": "user", "content": "next"}]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    following = tokenizer.decode([chat.eos_id, *chat.between("next", ended=True)])
    assert (rendered + forced).endswith(f"reply{following}")


@pytest.mark.parametrize(
    ("name", "call_format", "definitions", "results"),
    [
        ("qwen2_5", "hermes", True, True),
        ("qwen3", "hermes", True, True),
        ("qwen3_5_think", "qwen3_coder", True, True),
        ("nemotron_3_nano", "qwen3_coder", True, True),
        ("llama3_1", "llama", True, True),
        ("llama3_2", "llama", True, True),
        ("glm4moe", "glm", True, True),
        ("deepseekv3", "deepseek_v3", False, True),
        ("deepseek_r1_distill", "deepseek_v3", False, True),
        ("lfm2", "lfm2", True, True),
        ("lfm2_2_5_v2", "lfm2", True, True),
        ("gemma4", "gemma4", True, True),
        ("gemma4_v5", "gemma4", True, True),
        ("gptoss", "gpt_oss", True, True),
        ("gemma3", "answer", False, False),
        ("phi3", "answer", False, False),
    ],
)
def test_templates_of_models_get_the_format_of_their_family(name, call_format, definitions, results):
    chat = ChatFormat(tokenizer_of(real_template(name)), think=True)
    bound = chat.with_tools((TOOL,))
    assert (chat.call_format, chat.call_notice) == (call_format, "")
    assert (bound.renders_tools, bound.renders_results) == (definitions, results)


@pytest.mark.parametrize(
    ("name", "end", "result"),
    [
        ("gptoss", "<|call|>", '<|start|>functions.price to=assistant<|channel|>commentary<|message|>"3"<|end|>'),
        ("gemma4", "<|tool_response>", 'response:price{value:<|"|>3<|"|>}<tool_response|>'),
    ],
)
def test_a_call_ends_with_a_token_of_its_own_before_its_result(name, end, result):
    chat = ChatFormat(tokenizer_of(real_template(name)), think=True).with_tools((TOOL,))
    assert chat.tokenizer.convert_ids_to_tokens(chat.end_id("tool")) == end
    assert chat.end_id("user") != chat.end_id("tool")
    assert chat.decode(chat.between("3", ended=True, role="tool")).startswith(result)


def test_a_format_that_is_not_known_falls_back_to_answers_with_the_reason():
    unknown = real_template("qwen3").replace("tool_call", "tool_use")
    chat = ChatFormat(tokenizer_of(unknown.replace("message.tool_use", "message.tool_call")), think=True)
    assert chat.call_format == "answer"
    assert "format that is not known" in chat.call_notice


def test_marks_alone_choose_no_format():
    chat = ChatFormat(tokenizer_of(UNKNOWN), think=True)
    assert chat.call_format == "answer"
    assert "hermes cannot read a trial call" in chat.call_notice


def test_a_call_of_glm_ends_with_the_token_of_its_result():
    """The token is sampled like an end token, and added where a response was cut or ended as if an answer."""
    chat = ChatFormat(TOKENIZERS["glm"], think=True).with_tools((TOOL,))
    user, observation = chat.tokenizer.convert_tokens_to_ids(["<|user|>", "<|observation|>"])
    assert (chat.eos_id, chat.call_end_id, chat.end_ids) == (user, observation, {user, observation})
    after = chat.between("3", ended=True, role="tool")
    assert observation not in after
    assert chat.between("3", ended=False, role="tool") == [observation, *after]
    assert chat.decode([*chat.tokenizer.encode("so"), observation]) == "so"
    text = render_calls([ToolCall("price", {"item": "lamp"})], "glm")
    ids = [*chat.tokenizer.encode(text), observation]
    lengths = TokenTexts(chat).lengths(ids, chat.decode(ids))
    assert (sum(lengths), lengths[-1]) == (len(text), 0)


@pytest.mark.parametrize(("end", "added"), [("<|observation|>", False), ("<|user|>", True)])
def test_the_result_follows_the_token_of_results_whatever_ended_the_call(end, added):
    chat = ChatFormat(TOKENIZERS["glm"], think=True)
    config = RunConfig.model_validate({"environment": CALCULATOR})
    episode = tiny.episode(chat, config, options={"question": "What is 6 * 7?", "answer": "42"})
    episode.prompt()
    text = "so</think>" + render_calls([ToolCall("calculator", {"expression": "6 * 7"})], "glm")
    ids = [*chat.tokenizer.encode(text), chat.tokenizer.convert_tokens_to_ids(end)]
    turn = episode.receive(SampledResponse(ids, [0.0] * len(ids), [0.0] * len(ids), True))
    assert turn is not None
    assert turn.actions[0].call.result == "42"
    assert (episode.prompt()[0] == chat.call_end_id) is added


def llama(folder: Path, tokenizer) -> Path:
    """A tiny random checkpoint with this tokenizer."""
    tiny.save_llama(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_responses_end_with_any_of_the_templates_end_tokens(tmp_path):
    config = tiny.config(llama(tmp_path, TOKENIZERS["glm"]))
    policy = load(tmp_path, config.policy)
    ends = frozenset(range(0, len(TOKENIZERS["glm"]), 2))
    session = make_sampler(config, policy, 1, end_ids=ends).session([1, 2, 3], SamplingParams(max_tokens=40))
    responses = dict(session.generate({row: [5, 6, 7] for row in range(3)}))
    assert len(responses) == 3
    for response in responses.values():
        assert response.ended
        assert response.ids[-1] in ends | {1}
        assert not (ends | {1}) & {*response.ids[:-1]}


@pytest.mark.parametrize("family", ["glm", "minimax", "deepseek_v31", "not known"])
def test_a_run_with_tools_is_played_and_learned(family, tmp_path):
    """A random checkpoint with the family's template; where no format fits, the journal says so once."""
    tokenizer = tokenizer_of(UNKNOWN) if family == "not known" else TOKENIZERS[family]
    config = tiny.config(
        llama(tmp_path / "model", tokenizer),
        iterations=1,
        environment=CALCULATOR,
        rollout={"groups": 1, "group_size": 2, "max_response_tokens": 6},
        algorithm={"estimator": "gae", "drop_zero_std": False},
        evaluation={"prompts": 0},
    )
    end = run_factory.run(config, tmp_path / "run", tmp_path / "cache")
    assert end.reason == "completed"
    events = list(reader.read(tmp_path / "run" / JOURNAL_FILE))
    assert [event.error for event in events if isinstance(event, TrajectoryFinished)] == [None, None]
    notices = [event.message for event in events if isinstance(event, Notice) if "calls of tools" in event.message]
    assert len(notices) == (family == "not known")
