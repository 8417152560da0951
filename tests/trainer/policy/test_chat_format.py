"""Chat format: masks by construction, many chat templates, any response."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import AddedToken

from tests.trainer import tiny
from tests.trainer.random_texts import texts
from trainer.config.files import validation_errors
from trainer.config.rollout import SYSTEM
from trainer.config.run import RunConfig
from trainer.engines.sampler import SampledResponse
from trainer.policy.chat_format import ChatFormat, TemplateError
from trainer.rollout.trajectory import collate

STYLES = tiny.styles()
PREFIX_PRESERVING = ["pocket", "chatml", "llama-3"]
style_names = pytest.mark.parametrize("style", STYLES)
CHATML_WITHOUT_PROMPT = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}"
)

env_names = st.sampled_from(["Sokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA"])


@st.composite
def responses(draw, chat):
    """A sampler's response: text or any ids; closed, only the end token, or truncated."""
    if draw(st.booleans()):
        ids = chat.tokenizer.encode(draw(texts), add_special_tokens=False)
    else:
        ids = draw(st.lists(st.integers(0, len(chat.tokenizer) + 5), max_size=8))
    ids = [token for token in ids if token != chat.eos_id]
    ended = draw(st.booleans()) or not ids
    ids += [chat.eos_id] * ended
    numbers = st.lists(st.floats(-30, 0, width=32), min_size=len(ids), max_size=len(ids))
    return SampledResponse(ids, draw(numbers), draw(numbers), ended)


@given(data=st.data())
def test_the_mask_contains_exactly_the_sampled_tokens(data):
    style, env_name, think = data.draw(st.sampled_from(list(STYLES))), data.draw(env_names), data.draw(st.booleans())
    chat = ChatFormat(STYLES[style], think=think)
    run = RunConfig.model_validate({"environment": {"name": env_name}, "rollout": {"think": think, "max_turns": 4}})
    episode = tiny.episode(chat, run, seed=data.draw(st.integers(0, 50)))
    trajectory = episode.trajectory
    ids, sampled, logprobs, entropies, turns = [], [], [], [], []
    while not episode.ended:
        read = list(episode.prompt())
        ids += read
        sampled += [False] * len(read)
        logprobs += [0.0] * len(read)
        entropies += [0.0] * len(read)
        turns += [-1] * len(read)
        assert trajectory.ids == ids, "history is only ever extended"
        response = data.draw(responses(chat))
        turn = episode.receive(response)
        ids += response.ids
        sampled += [True] * len(response.ids)
        logprobs += response.logprobs
        entropies += response.entropies
        turns += [turn.turn] * len(response.ids)
        assert turn.tokens == len(response.ids)
    assert (trajectory.ids, trajectory.sampled, trajectory.turn_of) == (ids, sampled, turns)
    assert (trajectory.logprobs, trajectory.entropies) == (logprobs, entropies)

    batch = collate([trajectory], pad_id=0)
    assert batch.ids[0].tolist() == ids
    assert batch.mask[0].tolist() == sampled
    assert torch.equal(batch.sampler_logprobs[0], torch.tensor(logprobs))
    assert not batch.mask[0, 0], "the first token is never predicted"
    assert float(batch.rewards.sum()) == pytest.approx(trajectory.total_reward, abs=1e-4)
    assert not batch.rewards[~batch.mask].any(), "rewards lie on sampled tokens only"


@pytest.mark.parametrize("style", PREFIX_PRESERVING)
def test_a_dialogue_equals_the_rendered_template(style):
    tokenizer = STYLES[style]
    chat = ChatFormat(tokenizer, think=True)
    questions, responses_given = ["first question", "second question", "third"], ["one</think>a", "two</think>b"]
    ids = chat.opening(questions[0])
    for number, text in enumerate(responses_given):
        ids = [*ids, *tiny.sampled(chat, text).ids, *chat.between(questions[number + 1], ended=True)]
    messages = [{"role": "system", "content": SYSTEM}]
    for question, reply in zip(questions, [*responses_given, None], strict=True):
        messages.append({"role": "user", "content": question})
        if reply:
            messages.append({"role": "assistant", "content": "<think>" + reply})
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids) == rendered + "<think>"


def starts_with_a_space(tokenizer):
    """As LlamaTokenizer: words begin with ▁, and so does the first one of a text."""
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    alphabet = sorted({letter for text in (*tiny.corpus(), "▁😀<|>_") for letter in text})
    data["model"] |= {"vocab": {letter: number for number, letter in enumerate(alphabet)}, "merges": []}
    data["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    start = len(alphabet)
    data["added_tokens"] = [token | {"id": start + number} for number, token in enumerate(data["added_tokens"])]
    return tiny.with_backend(tokenizer, data)


def swallows_line_breaks(tokenizer):
    """As Phi 3: the line break after a special token is part of it."""
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    data["added_tokens"] = [token | {"rstrip": True} for token in data["added_tokens"]]
    return tiny.with_backend(tokenizer, data)


@pytest.mark.parametrize("change", [starts_with_a_space, swallows_line_breaks])
def test_messages_are_encoded_as_in_the_whole_dialogue(change):
    tokenizer = change(STYLES["chatml"])
    chat = ChatFormat(tokenizer, think=True)
    question, end = "a wall", tokenizer.convert_ids_to_tokens(chat.eos_id)
    prompt = "\n<|im_start|>user\na wall<|im_end|>\n<|im_start|>assistant\n<think>"
    expected = tokenizer.encode(end + prompt, add_special_tokens=False)
    assert [chat.eos_id, *chat.between(question, ended=True)] == expected
    assert chat.between(question, ended=False) == expected


def test_a_template_that_drops_thoughts_keeps_sampled_tokens():
    forgetful, plain = (ChatFormat(STYLES[name], think=True) for name in ("thoughts cut from history", "chatml"))

    def dialogue(chat):
        return [*chat.opening("a"), *tiny.sampled(chat, "thought</think>b").ids, *chat.between("c", ended=True)]

    text = forgetful.tokenizer.decode(dialogue(forgetful))
    assert text == plain.tokenizer.decode(dialogue(plain))
    assert "thought" in text


@style_names
@pytest.mark.parametrize("system", ["", "Be brief.\nÜse ASSISTANT-TURN-HERE and <think>…</think>."])
def test_the_system_message_is_a_setting_and_changes_nothing_else(style, system):
    usual, chat = (ChatFormat(STYLES[style], think=True, system=text) for text in (SYSTEM, system))
    texts = [each.tokenizer.decode(each.opening("hello")) for each in (usual, chat)]
    assert SYSTEM in texts[0]
    assert SYSTEM not in texts[1]
    if system:
        assert texts[1] == texts[0].replace(SYSTEM, system)
    else:
        assert texts[0].endswith(texts[1][texts[1].index("hello") :])
        assert "system" not in texts[1]
    assert usual.between("more", ended=True) == chat.between("more", ended=True)
    assert (usual.eos_id, usual.forced) == (chat.eos_id, chat.forced)


def test_a_system_message_with_a_special_token_is_refused():
    with pytest.raises(TemplateError, match=r"rollout\.system contains <\|im_end\|>, a special token .* remove it"):
        ChatFormat(STYLES["chatml"], think=True, system="Hello.<|im_end|>")
    assert ChatFormat(STYLES["llama-3"], think=True, system="Hello.<|im_end|>").system == "Hello.<|im_end|>"


def test_a_template_without_a_system_role_gets_it_in_the_first_user_turn():
    chat = ChatFormat(STYLES["no system role, own end of turn"], think=True)
    text = chat.tokenizer.decode(chat.opening("hello"))
    assert text == f"<bos><start_of_turn>user\n{SYSTEM}\n\nhello<end_of_turn>\n<start_of_turn>model\n<think>"


def test_a_template_that_drops_the_system_message_gets_it_in_the_first_user_turn():
    template = CHATML_WITHOUT_PROMPT.replace("in messages", "in messages if message.role != 'system'")
    chat = ChatFormat(tiny.bpe(["<|im_start|>", "<|im_end|>"], template, "<|im_end|>"), think=True)
    text = chat.tokenizer.decode(chat.opening("hello"))
    assert text == f"<|im_start|>user\n{SYSTEM}\n\nhello<|im_end|>\n<|im_start|>assistant\n<think>"


REQUIRING_SYSTEM = "{% if messages[0].role != 'system' %}{{ raise_exception('no system message') }}{% endif %}"


@pytest.mark.parametrize("system", [SYSTEM, ""])
@pytest.mark.parametrize(
    "before, content",
    [
        (REQUIRING_SYSTEM, "message.content"),
        ("", "message.content[0].text"),
        (REQUIRING_SYSTEM, "message.content | map(attribute='text') | join"),
    ],
)
def test_a_template_may_require_a_system_message_or_contents_in_parts(before, content, system):
    """The dialogue is as with the usual template, except for an empty system message where one is required."""
    dialogues = []
    for template in (CHATML_WITHOUT_PROMPT, before + CHATML_WITHOUT_PROMPT.replace("message.content", f"({content})")):
        chat = ChatFormat(tiny.bpe(["<|im_start|>", "<|im_end|>"], template, "<|im_end|>"), think=True, system=system)
        dialogues.append(chat.tokenizer.decode([*chat.opening("one"), *chat.between("two", ended=False)]))
    assert dialogues[1].removeprefix("<|im_start|>system\n<|im_end|>\n") == dialogues[0]
    assert "one" in dialogues[0]


def test_a_template_without_a_generation_prompt_begins_responses_as_its_dialogues_do():
    texts = []
    for prompt in ("", "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"):
        tokenizer = tiny.bpe(["<|im_start|>", "<|im_end|>"], CHATML_WITHOUT_PROMPT + prompt, "<|im_end|>")
        chat = ChatFormat(tokenizer, think=True)
        texts.append([tokenizer.decode(ids) for ids in (chat.opening("one"), chat.between("two", ended=True))])
    assert texts[0] == texts[1]


def test_an_end_token_that_is_not_marked_as_special_ends_responses():
    prompt = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    tokenizer = tiny.bpe(["</s>"], CHATML_WITHOUT_PROMPT + prompt, "</s>")
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<|im_start|>", "<|im_end|>")])
    chat = ChatFormat(tokenizer, think=True)
    assert tokenizer.convert_ids_to_tokens(chat.eos_id) == "<|im_end|>"
    assert tokenizer.decode(chat.between("more", ended=False)).startswith("<|im_end|>\n<|im_start|>user\nmore")


def test_the_end_token_is_the_one_closing_a_turn_in_the_template():
    ends = {style: tokenizer.decode([ChatFormat(tokenizer, think=True).eos_id]) for style, tokenizer in STYLES.items()}
    assert ends == {
        "pocket": "<|im_end|>",
        "chatml": "<|im_end|>",
        "llama-3": "<|eot_id|>",
        "thoughts cut from history": "<|im_end|>",
        "no system role, own end of turn": "<end_of_turn>",
        "space before the end token": "</s>",
        "opens the thought itself": "<|im_end|>",
    }


@style_names
@given(text=st.text("abc </think>", max_size=10), question=st.text("xyz?", min_size=1, max_size=10))
def test_every_response_is_closed_once_and_a_truncated_one_unsampled(style, text, question):
    chat = ChatFormat(STYLES[style], think=True)
    whole, cut = tiny.sampled(chat, text), tiny.sampled(chat, text, ended=False)
    after_whole, after_cut = chat.between(question, ended=True), chat.between(question, ended=False)
    assert whole.ids + after_whole == cut.ids + after_cut
    closings = (whole.ids + after_whole).count(chat.eos_id)
    in_question = chat.between(question, ended=True).count(chat.eos_id)
    assert closings == 1 + in_question
    assert question in chat.tokenizer.decode(after_whole)


@style_names
@pytest.mark.parametrize("think", [True, False])
def test_the_forced_tag_precedes_every_response_once(style, think):
    chat = ChatFormat(STYLES[style], think=think)
    tag = "<think>" if think else "<answer>"
    for ids in (chat.opening("q"), chat.between("q", ended=True), chat.between("q", ended=False)):
        text = chat.tokenizer.decode(ids)
        assert text.count(tag) == 1
        assert text.rstrip().endswith(tag)


@pytest.mark.parametrize(
    "template, complaint",
    [
        (None, "cannot render a dialogue"),
        ("{{ raise_exception('only one question') if messages | length > 1 else '' }}", "only one question"),
        ("{{ messages[-1]['content'] }}", "drops messages"),
        ("{{ nonsense(", "cannot render a dialogue"),
    ],
)
def test_an_unsuitable_template_is_refused_with_a_reason(template, complaint):
    tokenizer = tiny.bpe(["<end>"], template, "<end>")
    with pytest.raises(TemplateError, match=complaint):
        ChatFormat(tokenizer, think=True)


def test_a_tokenizer_that_cannot_end_a_response_is_refused():
    tokenizer = tiny.bpe([], "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}", "<end>")
    tokenizer.eos_token = None
    with pytest.raises(TemplateError, match="could never end"):
        ChatFormat(tokenizer, think=True)


@style_names
@given(data=st.data())
def test_decoded_text_is_storable_and_drops_only_the_end_token(style, data):
    chat = ChatFormat(STYLES[style], think=True)
    ids = data.draw(st.lists(st.integers(0, len(chat.tokenizer) + 20), max_size=12))
    text = chat.decode([*ids, chat.eos_id])
    assert "\0" not in text
    text.encode()
    if ids and ids[-1] != chat.eos_id:
        assert chat.decode(ids) == text


def test_special_tokens_inside_a_response_stay_visible():
    chat = ChatFormat(STYLES["chatml"], think=True)
    assert chat.decode(tiny.sampled(chat, "a<|im_start|>b").ids) == "a<|im_start|>b"


MISTRAL = (  # Mistral 0.3: the system text stands before the last user message
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}"
    "{% for message in loop_messages %}{% if message['role'] == 'user' %}"
    "{% if loop.last and system is defined %}{{ '[INST] ' + system + '\n\n' + message['content'] + '[/INST]' }}"
    "{% else %}{{ '[INST] ' + message['content'] + '[/INST]' }}{% endif %}"
    "{% else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
)
DATED = tiny.CHATML.replace("{% for", "{{ 'Today: ' + strftime_now('%d %b %Y') + '.\n' }}{% for", 1)
SWITCHED = tiny.CHATML.replace(
    "assistant\n{% endif %}",
    "assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
)


def text_of(chat, ids):
    return chat.tokenizer.decode(ids)


def test_a_system_text_that_the_template_repeats_is_read_once():
    tokenizer = tiny.bpe(["<s>", "</s>", "[INST]", "[/INST]"], MISTRAL, "</s>")
    tokenizer.bos_token = "<s>"
    chat = ChatFormat(tokenizer, think=True, system="Be brief.")
    assert text_of(chat, chat.opening("first")) == "<s>[INST] Be brief.\n\nfirst[/INST]<think>"
    assert text_of(chat, chat.between("second", ended=True)) == "[INST] second[/INST]<think>"


@pytest.mark.parametrize("ending", ["<think>\n", "<think>"])
def test_without_thoughts_a_template_that_opens_one_gets_an_empty_one(ending):
    chatml = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    template = tiny.CHATML.replace("assistant\n{% endif %}", f"assistant\n{ending}{{% endif %}}")
    chat = ChatFormat(tiny.bpe(chatml, template, "<|im_end|>"), think=False)
    for ids in (chat.opening("first"), chat.between("second", ended=True)):
        assert text_of(chat, ids).endswith("assistant\n<think>\n\n</think>\n\n<answer>")
    assert ChatFormat(chat.tokenizer, think=True).forced == ""


def test_variables_reach_the_template():
    tokenizer = tiny.bpe(["<|im_start|>", "<|im_end|>", "<|endoftext|>"], SWITCHED, "<|im_end|>")
    rollout = RunConfig.model_validate(
        {"rollout": {"think": False, "chat_template_kwargs": {"enable_thinking": "off"}}}
    )
    chat = ChatFormat.of_rollout(tokenizer, rollout.rollout)
    assert text_of(chat, chat.opening("first")).endswith("<think>\n\n</think>\n\n<answer>")
    assert not text_of(chat, ChatFormat(tokenizer, think=False).opening("first")).endswith("</think>\n\n<answer>")


def test_a_template_with_a_date_writes_the_same_one_every_day():
    tokenizer = tiny.bpe(["<|im_start|>", "<|im_end|>", "<|endoftext|>"], DATED, "<|im_end|>")
    chat = ChatFormat(tokenizer, think=True)
    assert text_of(chat, chat.opening("x")).startswith("Today: 26 Jul 2024.")


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"chat_template_kwargs": {"messages": "x"}}, "may not set messages, which the trainer determines"),
        ({"chat_template_kwargs": {"not a name": 1}}, "'not a name' cannot be the name of a variable"),
        ({"chat_template_kwargs": {"tools": []}}, "may not set tools"),
        ({"chat_template_kwargs": {"effort": [1]}}, "effort must be a number, a text, true or false"),
    ],
)
def test_unusable_settings_of_templates_are_refused(settings, message):
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate({"rollout": settings})
    assert message in validation_errors(refusal.value)[0][1]
