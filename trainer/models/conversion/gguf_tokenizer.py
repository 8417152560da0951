"""Tokenizer of a GGUF file, as the tokenizer.json that the original model has.

Splitting patterns are those of the original tokenizers, which llama.cpp names in `tokenizer.ggml.pre`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from trainer.models.conversion.families import Family, template_text
from trainer.models.conversion.gguf_file import GgufModel
from trainer.models.store import ModelStoreError

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
"""Kinds of tokens in `tokenizer.ggml.token_type`."""
_SPACE = "\u2581"
_PADDING = re.compile(r"\[PAD\d+\]")

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = rf"{_LETTERS}|\p{{N}}|{_REST}"
_LLAMA3 = rf"{_LETTERS}|\p{{N}}{{1,3}}|{_REST}"


@dataclass(frozen=True)
class _Vocabulary:
    tokens: Sequence[str]
    kinds: Sequence[int]
    scores: Sequence[float]
    merges: Sequence[str]

    @property
    def used(self) -> dict[str, int]:
        """Ids by token, without the rows that only pad the embedding."""
        return {token: number for number, token in enumerate(self.tokens) if not self._pads(number)}

    def merge_scores(self) -> list[float]:
        """Scores by which tokens are merged; llama.cpp lowers those of tokens that it matches whole."""
        if len(self.scores) != len(self.tokens):
            raise ModelStoreError("the GGUF file has no scores of its tokens (tokenizer.ggml.scores)")
        return [0.0 if kind == _USER_DEFINED else score for kind, score in zip(self.kinds, self.scores, strict=True)]

    def _pads(self, number: int) -> bool:
        return self.kinds[number] == _UNUSED and _PADDING.fullmatch(self.tokens[number]) is not None


def read_tokenizer(model: GgufModel, family: Family, template: str = "") -> PreTrainedTokenizerFast:
    """Return the tokenizer with its chat template.

    Args:
        template: key of `families.TEMPLATES` for a file without a chat template; "" for none.
    Raises:
        ModelStoreError: there is no tokenizer or chat template, or one of an unknown kind.
    """
    tokens = model.get("tokenizer.ggml.tokens")
    if not tokens:
        raise ModelStoreError("the GGUF file has no tokenizer (tokenizer.ggml.tokens): it cannot be imported")
    kinds = model.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    scores = model.get("tokenizer.ggml.scores") or []
    kind, pre = str(model.get("tokenizer.ggml.model", "")), str(model.get("tokenizer.ggml.pre", ""))
    if kind == "llama":  # llama.cpp writes several spaces as such, although the vocabulary spells them ▁
        tokens = [_SPACE * len(token) if set(token) == {" "} else token for token in tokens]
    vocabulary = _Vocabulary(tokens, kinds, scores, model.get("tokenizer.ggml.merges") or [])
    if kind == "gpt2":
        tokenizer = _byte_level(vocabulary, pre)
    elif kind == "llama":
        gemma = family.model_type == "gemma3_text"
        prefix = bool(model.get("tokenizer.ggml.add_space_prefix", not gemma))
        tokenizer = _sentencepiece(vocabulary, prefix=prefix)
    else:
        raise ModelStoreError(f"the GGUF file has a tokenizer of the kind {kind!r}: only gpt2 and llama are supported")
    _add_tokens(tokenizer, vocabulary)
    special = _special_tokens(model, tokens, family)
    if bool(model.get("tokenizer.ggml.add_bos_token", kind == "llama")) and "bos_token" in special:
        bos = special["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 {bos}:1 $B:1", special_tokens=[(bos, tokens.index(bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=_template(model, family, tokenizer, template),
        clean_up_tokenization_spaces=False,
        model_max_length=int(model.required("context_length")),
        **special,
    )


def _byte_level(vocabulary: _Vocabulary, pre: str) -> Tokenizer:
    """Return a byte-level BPE tokenizer."""
    if pre not in _BYTE_LEVEL:
        raise ModelStoreError(
            f"the GGUF file splits text by {pre!r} (tokenizer.ggml.pre), which is unknown here: only "
            f"{', '.join(_BYTE_LEVEL)} are supported"
        )
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in vocabulary.merges)]
    llama3 = _BYTE_LEVEL[pre] is _llama3
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary.used, merges=merges, ignore_merges=llama3))
    _BYTE_LEVEL[pre](tokenizer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _smollm(tokenizer: Tokenizer) -> None:
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])


def _gpt2(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


def _split(tokenizer: Tokenizer, pattern: str) -> None:
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])


def _qwen2(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.NFC()
    _split(tokenizer, _QWEN2)


def _llama3(tokenizer: Tokenizer) -> None:
    _split(tokenizer, _LLAMA3)


_BYTE_LEVEL: Mapping[str, Callable[[Tokenizer], None]] = {
    "gpt-2": _gpt2,
    "smollm": _smollm,
    "qwen2": _qwen2,
    "deepseek-r1-qwen": _qwen2,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "llama-v3": _llama3,
}


def _sentencepiece(vocabulary: _Vocabulary, *, prefix: bool) -> Tokenizer:
    """Return a BPE tokenizer with spaces as ▁ and bytes for unknown characters.

    Args:
        prefix: whether text begins with a space that is not in it.
    """
    used = vocabulary.used
    unknown = "<unk>" if "<unk>" in used else None
    merges = _merges(used, vocabulary.merge_scores())
    tokenizer = Tokenizer(models.BPE(vocab=used, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", _SPACE)
    parts = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replace])
        parts.append(decoders.Strip(" ", 1, 0))
    else:
        tokenizer.normalizer = replace
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(parts)
    return tokenizer


def _merges(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Return the pairs of tokens that make another token, in the order in which they are merged.

    SentencePiece stores no merges: any two neighbours whose union is a token may be merged, the union with the highest
    score first. Of equal ones, the longest left part is first, as in the published tokenizers.
    """
    pairs = [
        (scores[number], cut, len(token) - cut, token[:cut], token[cut:])
        for token, number in vocabulary.items()
        for cut in range(1, len(token))
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]
    pairs.sort(key=lambda pair: pair[:3], reverse=True)
    return [(left, right) for *_, left, right in pairs]


def _add_tokens(tokenizer: Tokenizer, vocabulary: _Vocabulary) -> None:
    """Keep control tokens (special) and user-defined ones whole, in the order of their ids."""
    added = [
        AddedToken(token, normalized=False, special=kind == _CONTROL)
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer.add_tokens(added)


def _special_tokens(model: GgufModel, tokens: Sequence[str], family: Family) -> dict[str, str]:
    """Return the tokens with a role. Qwen has no token at the beginning of a text, whatever the file says."""
    special = {}
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = model.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None and 0 <= number < len(tokens) and not (role == "bos" and family.model_type[:4] == "qwen"):
            special[f"{role}_token"] = tokens[number]
    if "eos_token" not in special:
        raise ModelStoreError("the GGUF file names no end-of-sequence token: it is no language model that can chat")
    return special


def _template(model: GgufModel, family: Family, tokenizer: Tokenizer, requested: str) -> str:
    """Return the chat template: as requested, of the file, or of the family."""
    if requested:
        return template_text(requested)
    if template := model.get("tokenizer.chat_template"):
        return str(template)
    if family.default_template and tokenizer.token_to_id(family.template_token) is not None:
        return template_text(family.default_template)
    raise ModelStoreError(
        "the GGUF file has no chat template: it is a base model. Choose an instruction-tuned (chat) model, or add the "
        "template of a family with --template chatml, gemma or llama3"
    )
