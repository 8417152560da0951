"""Chat format: masks by construction, many chat templates, any response."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from tests.trainer.random_texts import texts
from trainer.config.run import RunConfig
from trainer.engines.sampler import SampledResponse
from trainer.policy.chat_format import SYSTEM, ChatFormat, TemplateError
from trainer.rollout.trajectory import collate

STYLES = tiny.styles()
PREFIX_PRESERVING = ["pocket", "chatml", "llama-3"]
style_names = pytest.mark.parametrize("style", STYLES)

TAGS = ["<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>"]
PIECES = ["<thi", "nk>", "</ans", "wer>", "<", ">", "|", "<|im_", "end|>"]
words = st.sampled_from([*TAGS, *PIECES, "||", "Up", "down", " ", "\n", "Jump"])
inside = st.lists(words, max_size=8).map("".join)
well_formed = st.builds("{}</think>{}<answer>{}</answer>".format, inside, st.sampled_from(["", " ", "\n"]), inside)
texts = st.one_of(st.text(max_size=40), st.lists(words, max_size=14).map("".join), well_formed)
environments = st.sampled_from(["Sokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA"])


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
def test_exactly_the_sampled_tokens_are_in_the_mask_whatever_was_said(data):
    style, environment, think = (
        data.draw(st.sampled_from(list(STYLES))),
        data.draw(environments),
        data.draw(st.booleans()),
    )
    chat = ChatFormat(STYLES[style], think=think)
    run = RunConfig.model_validate({"environment": {"name": environment}, "rollout": {"think": think, "max_turns": 4}})
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
    heard, spoken = ["first question", "second question", "third"], ["one</think>a", "two</think>b"]
    ids = chat.opening(heard[0])
    for number, text in enumerate(spoken):
        ids = [*ids, *tiny.sampled(chat, text).ids, *chat.between(heard[number + 1], ended=True)]
    messages = [{"role": "system", "content": SYSTEM}]
    for question, reply in zip(questions, [*responses_given, None], strict=True):
        messages.append({"role": "user", "content": question})
        if reply:
            messages.append({"role": "assistant", "content": "<think>" + reply})
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids) == rendered + "<think>"


def test_a_template_that_drops_thoughts_keeps_sampled_tokens():
    forgetful, plain = (ChatFormat(STYLES[name], think=True) for name in ("thoughts cut from history", "chatml"))

    def dialogue(chat):
        return [*chat.opening("a"), *tiny.sampled(chat, "thought</think>b").ids, *chat.between("c", ended=True)]

    text = forgetful.tokenizer.decode(dialogue(forgetful))
    assert text == plain.tokenizer.decode(dialogue(plain))
    assert "thought" in text


def test_a_template_without_a_system_role_gets_it_in_the_first_user_turn():
    chat = ChatFormat(STYLES["no system role, own end of turn"], think=True)
    text = chat.tokenizer.decode(chat.opening("hello"))
    assert text == f"<bos><start_of_turn>user\n{SYSTEM}\n\nhello<end_of_turn>\n<start_of_turn>model\n<think>"


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


@given(texts, st.booleans(), st.integers(1, 6))
def test_any_text_is_parsed_and_never_more_actions_than_allowed(text, think, limit):
    parsed = parse_response(text, think=think, max_actions=limit)
    assert len(parsed.actions) <= limit
    assert all(action == action.strip() and action and ACTION_SEPARATOR not in action for action in parsed.actions)
    assert (parsed.problem is None) == bool(parsed.actions)
    assert parsed.structured or not parsed.actions
    if parsed.structured:
        assert not any(tag in part for tag in TAGS for part in (parsed.thought, *parsed.actions))


@example("x</think><answer><thi<answer>nk>Up</answer>", True, 5)
@example("<|im_<|im_start|>end|></think><answer>a||b||c|||</answer>", True, 2)
@given(texts, st.booleans(), st.integers(1, 6))
def test_parsing_what_was_parsed_changes_nothing(text, think, limit):
    once = parse_response(text, think=think, max_actions=limit)
    again = parse_response(once.text.removeprefix("<think>" if think else "<answer>"), think=think, max_actions=limit)
    assert again == once


@given(st.lists(st.sampled_from(["Up", "left", "JUMP", "go up"]), min_size=1, max_size=8), st.integers(1, 8))
def test_a_well_formed_answer_says_its_first_actions(actions, limit):
    parsed = parse_response(tiny.answer(*actions, thought=" I see "), think=True, max_actions=limit)
    assert parsed.actions == tuple(actions[:limit])
    assert (parsed.thought, parsed.structured, parsed.problem) == ("I see", True, None)


@pytest.mark.parametrize(
    "response, think, problem",
    [
        ("on and on", True, "the thought is not closed with </think>"),
        ("so</think>Up", True, "there is no <answer>"),
        ("so</think><answer>Up", True, "the answer is not closed with </answer>"),
        ("so</think> then <answer>Up</answer>", True, "<answer> does not follow </think>"),
        ("so</think><answer> || </answer>", True, "the answer names no action"),
        ("Up", False, "the answer is not closed with </answer>"),
    ],
)
def test_the_problem_of_a_response_is_told_in_words(response, think, problem):
    assert parse_response(response, think=think, max_actions=5).problem == problem


def test_the_opening_says_task_symbols_actions_format_and_limits():
    spec = envs.spec("Sokoban")
    text = opening_message(spec, RolloutConfig(max_actions_per_turn=3, max_response_tokens=77))
    assert text.startswith(spec.instruction)
    for symbol, meaning in spec.vocabulary.items():
        assert f"{symbol} {meaning}" in text
    assert ", ".join(spec.actions) in text
    assert "<think>" in text
    assert "at most 3 actions" in text
    assert "77 tokens" in text


def test_the_wording_of_the_task_can_be_replaced_and_the_thought_left_out():
    text = opening_message(envs.spec("Bandit"), RolloutConfig(think=False, max_actions_per_turn=1), "Choose well.")
    assert text.startswith("Choose well.\n")
    assert "<think>" not in text
    assert "at most" not in text


def test_where_any_text_is_an_action_the_prompt_asks_for_an_answer():
    spec = envs.spec("MetaMathQA")
    text = opening_message(spec, RolloutConfig(max_actions_per_turn=1))
    assert "Actions:" not in text
    assert "<answer>your answer</answer>" in text
    several = opening_message(spec, RolloutConfig(max_actions_per_turn=3))
    assert "<answer>your answer || your answer</answer>, at most 3 answers" in several


def test_a_turn_tells_the_last_reward_before_the_state():
    assert state_message("board", turn=0, actions_left=10, last_reward=None) == "Turn 1:\nboard\nActions left: 10"
    message = state_message("board", turn=2, actions_left=4, last_reward=-0.1)
    assert message == "Reward: -0.1\nTurn 3:\nboard\nActions left: 4"
