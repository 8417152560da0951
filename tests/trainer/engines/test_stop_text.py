"""A response ends after the token that completes a text, however the text was tokenised."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from trainer.engines.stop_text import StopText
from trainer.policy.chat_format import ANSWER, ANSWER_END, ChatFormat

STYLES = tiny.styles()
PIECES = st.sampled_from([ANSWER, ANSWER_END, "</answer", "/answer>", ">", "<", "> ", "Left || Up", "\n", "😀√é", "x"])


class Pieces:
    """A tokenizer whose tokens are any texts, as a segmentation of a text gives them."""

    def __init__(self, pieces):
        self.pieces = pieces

    def decode(self, ids, **_):
        return "".join(self.pieces[number] for number in ids)


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(st.integers(0, 200), max_size=40))
def test_the_first_token_that_completes_the_text_is_found_in_any_segmentation(text, cuts):
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(borders)]
    pieces = [piece for index, piece in enumerate(pieces) for piece in [piece, ""][: 1 + (index in cuts)]]
    ids = list(range(len(pieces)))
    whole = [n for n in range(len(ids) + 1) if ANSWER_END in "".join(pieces[:n])]
    stop = StopText(ANSWER_END, Pieces(pieces))
    assert stop.length(ids) == (whole[0] if whole else None)
    growing = [n for n in range(1, len(ids) + 1) if stop.length(ids[:n], n - 1) is not None]
    assert growing[:1] == whole[:1]


@given(st.sampled_from(sorted(STYLES)), st.lists(PIECES, max_size=12).map("".join))
def test_tokens_of_real_tokenizers_are_found_with_the_text_that_they_decode_to(style, text):
    chat = ChatFormat(STYLES[style], think=True)
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    length = StopText(ANSWER_END, chat.tokenizer).length(ids)
    if length is None:
        assert ANSWER_END not in chat.decode(ids)
    else:
        assert ANSWER_END in chat.decode(ids[:length])
        assert ANSWER_END not in chat.decode(ids[: length - 1])
