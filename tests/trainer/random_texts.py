"""Random responses as text: tags, parts of tags, actions, and well-formed answers."""

from hypothesis import strategies as st

TAGS = ["<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>"]
PIECES = ["<thi", "nk>", "</ans", "wer>", "<", ">", "|", "<|im_", "end|>"]
words = st.sampled_from([*TAGS, *PIECES, "||", "Up", "down", " ", "\n", "Jump"])
inside = st.lists(words, max_size=8).map("".join)
well_formed = st.builds("{}</think>{}<answer>{}</answer>".format, inside, st.sampled_from(["", " ", "\n"]), inside)
texts = st.one_of(st.text(max_size=40), st.lists(words, max_size=14).map("".join), well_formed)
