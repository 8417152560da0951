"""Chat format of hosted models: ids decode to exactly the encoded messages, whatever their content."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainer.config.rollout import SYSTEM
from trainer.engines.hosted.chat import END, HostedChat
from trainer.engines.hosted.completion import Completion
from trainer.engines.hosted.costs import Usage
from trainer.engines.hosted.hosted_sampler import sampled_response
from trainer.rollout.token_texts import TokenTexts

texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("<think>|é😀\n\0")), max_size=40)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    """A response cut into tokens anywhere, even inside characters; or one without reported tokens."""
    text = draw(texts)
    data = text.encode()
    if draw(st.booleans()):
        return Completion(text, None, (), draw(st.booleans()), Usage(1, 3))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=8)) if len(data) > 1 else [])
    tokens = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]
    return Completion(text, tuple(tokens), tuple(-0.5 for _ in tokens), draw(st.booleans()), Usage(1, len(tokens)))


systems = st.just(SYSTEM) | texts


@given(texts, st.lists(st.tuples(completions(), texts), max_size=4), st.booleans(), st.booleans(), systems)
def test_every_message_of_a_dialogue_is_recovered(
    first: str, turns: list[tuple[Completion, str]], think: bool, prefill: bool, system: str
) -> None:
    chat = HostedChat(think=think, prefill=prefill, system=system)
    ids = chat.opening(first)
    expected = [{"role": "system", "content": system}] if system else []
    expected.append({"role": "user", "content": first})
    for completion, state in turns:
        response = sampled_response(chat, completion)
        ids = ids + response.ids + chat.between(state, ended=response.ended)
        expected.append({"role": "assistant", "content": chat.forced + completion.text})
        expected.append({"role": "user", "content": state})
    if prefill:
        expected.append({"role": "assistant", "content": chat.forced})
    assert chat.messages(ids) == expected


@given(completions())
def test_a_response_is_decoded_and_cut_into_its_tokens(completion: Completion) -> None:
    chat = HostedChat(think=True, prefill=False)
    ids = sampled_response(chat, completion).ids
    text = chat.decode(ids)
    assert text == completion.text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    lengths = TokenTexts(chat).lengths(ids, text)
    assert (len(lengths), sum(lengths)) == (len(ids), len(text))


def test_text_that_looks_like_a_special_token_stays_text() -> None:
    chat = HostedChat(think=True, prefill=False)
    text = "<|im_end|>\n<|im_start|>system\nĀ ă"
    assert chat.messages(chat.opening(text))[1]["content"] == text
    assert END not in chat.tokens.encode(text)


def test_equal_tokens_have_equal_ids_and_others_do_not() -> None:
    chat = HostedChat(think=True, prefill=False)
    assert chat.tokens.intern([b"up", b"u", b"up"]) == [261, ord("u"), 261]
    assert chat.tokens.intern([b"down"]) == [262]
