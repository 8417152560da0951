"""Chat format of a model: conversion of turns to token ids and back with the tokenizer's chat template.

The history of a trajectory is only ever extended: sampled tokens are kept, and the tokens between two responses are
taken from the chat template once. Templates that rewrite history (by dropping thoughts) thus cannot corrupt it, and no
special token has to be searched for.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import product
from typing import Any, Literal, Self

from envs.base import ToolSpec
from envs.tools.call_formats import CallFormat
from trainer.config.rollout import SYSTEM, RolloutConfig
from trainer.policy.tool_messages import RESULT_MARK, TRIAL_TOOL, ToolMessages, try_calls

THINK, THINK_END, ANSWER, ANSWER_END = "<think>", "</think>", "<answer>", "</answer>"
TEMPLATE_DATE = date(2024, 7, 26)
"""Date that chat templates write, on every day the same: Llama 3's default."""


class TemplateError(ValueError):
    """A chat template cannot format dialogues of several turns. The message gives the reason."""


def dated(template: str) -> str:
    """Replace today's date in a chat template by a fixed date: a continued run reads the same prompt."""

    def written(call: re.Match[str]) -> str:
        return json.dumps(TEMPLATE_DATE.strftime(call["format"]))

    return re.sub(r"""strftime_now\(\s*(?P<quote>["'])(?P<format>[^"']*)(?P=quote)\s*\)""", written, template)


def _get_template(tokenizer: Any) -> str:
    try:
        template: str = tokenizer.get_chat_template()
    except ValueError as error:  # no template, or several without a default
        raise TemplateError(f"the model's chat template cannot render a dialogue: {error}") from error
    return template


def _as_parts(content: str | None) -> list[dict[str, str]]:
    """Return a message's content as a list of parts, as templates of models with images take it."""
    return [{"type": "text", "text": content}] if content else []


Role = Literal["user", "tool"]
"""Role of the message between two responses: a state, or the results of calls."""
NOT_EXECUTED = "Error: this call was not executed."
"""Result of a call without one, for example beyond the limit of calls, if each call needs a message."""


class ChatFormat:
    """Format of turns of one tokenizer, derived from its chat template.

    `opening` returns all tokens before the first sampled one, `between` all tokens between a response's end token and
    the next sampled one. Both end with the forced opening tag (`<think>` or `<answer>`), which is never sampled.
    `eos_id` closes an assistant's turn in the template; it is not always the tokenizer's end token. In templates
    without one, where a turn ends at the next message, `call_end_id` closes a turn with calls. If a response ends
    otherwise (cut, or with another end token), `between` adds the template's token, which is not sampled.

    Args:
        tokenizer: a tokenizer with a chat template.
        think: whether responses contain a thought.
        system: the system message; empty = none. A template that refuses or drops it gets it in the first user message.
        variables: variables of the chat template in addition to the variables of transformers.
        call_format: format of tool calls; `auto` = the format that reads a call as the template renders it.
        model_end_ids: tokens that end a text according to the model's files, in addition to the template's.
    Raises:
        TemplateError: the template cannot format dialogues, or the system message contains one of its special tokens.
    Attributes:
        tools: tools that a response may call in the format of the model's family, see `with_tools`.
        call_format: format of those calls; in the format `answer`, calls are answers and treated as such.
        call_notice: why `auto` chose `answer` although the template supports tools, for the user; otherwise empty.
        renders_tools: whether the template writes the definitions of `tools`.
        renders_results: whether the template has messages for the results of calls.
        knows_prompt_tokens: whether the ids of prompts are the ids that the model reads; False for hosted models.
        separate_results: whether each result has a separate message; otherwise one message contains a turn's results.
    """

    _MARK_SYSTEM, _MARK_ASSISTANT, _MARK_USER = "SYSTEM-TEXT-HERE", "ASSISTANT-TURN-HERE", "USER-TURN-HERE"
    eos_id: int
    call_end_id: int | None = None
    tools: tuple[ToolSpec, ...] = ()
    call_format: CallFormat = "answer"
    call_notice = ""
    renders_tools = False
    renders_results = False
    separate_results = False
    knows_prompt_tokens = True
    _model_end_ids: frozenset[int] = frozenset()
    _requires_system = False
    _content_in_parts = False
    _assistant_header = ""
    _tool_messages = ToolMessages()
    _merges_system = False
    _system_lists_tools = False

    def __init__(
        self,
        tokenizer: Any,
        *,
        think: bool,
        system: str = SYSTEM,
        variables: Mapping[str, Any] | None = None,
        call_format: CallFormat | Literal["auto"] = "auto",
        model_end_ids: Iterable[int] = (),
    ) -> None:
        self._model_end_ids = frozenset(model_end_ids)
        self.tokenizer, self.system, self._variables = tokenizer, system, dict(variables or {})
        self._template = dated(_get_template(tokenizer))
        self._check_system()
        self._find_message_form()
        self._assistant_header = self._missing_header()
        self._merges_system = self._MARK_SYSTEM not in self._render(
            [{"role": "system", "content": self._MARK_SYSTEM}, {"role": "user", "content": "x"}]
        )
        # Without the system message, which some templates write before the last user message: it is read once.
        rendered = self._render(
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": self._MARK_ASSISTANT},
                {"role": "user", "content": self._MARK_USER},
            ]
        )
        _, assistant_mark, tail = rendered.partition(self._MARK_ASSISTANT)
        before_user, user_mark, self._after_user = tail.partition(self._MARK_USER)
        if not (assistant_mark and user_mark):
            raise TemplateError("the model's chat template drops messages: it cannot build dialogues of several turns")
        # The template closes the assistant's turn with its end token, which the policy samples itself unless cut.
        self.eos_id, self._before_user = self._split_end(before_user)
        self.think = think
        self.forced = self._forced(think, ANSWER)
        self._try_calls(None if call_format == "auto" else call_format)
        self._frames: dict[Role | None, tuple[str, str]] = {}

    @classmethod
    def of_rollout(cls, tokenizer: Any, rollout: RolloutConfig, model_end_ids: Iterable[int] = ()) -> Self:
        """Create the format for a rollout's settings, and a model with these end tokens. Raises TemplateError.

        Only hosted models have native calls, and they use a separate format.
        """
        return cls(
            tokenizer,
            think=rollout.think,
            system=rollout.system,
            variables=rollout.chat_template_kwargs,
            call_format="auto" if rollout.tool_calls == "native" else rollout.tool_calls,
            model_end_ids=model_end_ids,
        )

    def with_tools(self, tools: Sequence[ToolSpec]) -> Self:
        """Return the format of dialogues with these tools: this format without any, or if calls are written as answers.

        Otherwise responses contain calls in the format of the model's family or an answer, so that without a thought no
        tag is forced. The template writes the definitions if it can, and uses its role for results if it has one;
        otherwise both are plain text in the user's messages.
        """
        if not tools or self.call_format == "answer":
            return self
        bound = copy.copy(self)
        bound.tools, bound.forced, bound._frames = tuple(tools), self._forced(self.think, ""), {}
        bound.renders_results = RESULT_MARK in bound._results(RESULT_MARK)
        bound.renders_tools = True
        for bound._system_lists_tools in (False, True):
            if bound._renders_definitions():
                return bound
        bound.renders_tools = bound._system_lists_tools = False
        return bound

    def _forced(self, think: bool, answer: str) -> str:
        """Return the tag that begins each response. Templates of reasoning models open the thought themselves."""
        opened = self._after_user.rstrip().endswith(THINK)
        if think:
            return "" if opened else THINK
        if not opened:
            return answer
        line = "" if self._after_user.endswith("\n") else "\n"
        return f"{line}\n{THINK_END}\n\n{answer}"  # an empty thought in the form that these models write

    def _check_system(self) -> None:
        """Raise TemplateError for a special token: encoding would take it for the end of the message."""
        for token in self.tokenizer.added_tokens_decoder.values():
            if token.special and token.content and token.content in self.system:
                raise TemplateError(
                    f"rollout.system contains {token.content}, a special token of the model's tokenizer: remove it"
                )

    def _split_end(self, tail: str) -> tuple[int, str]:
        """Return the token that ends a response, and the text between it and the next user message."""
        added = self.tokenizer.added_tokens_decoder
        closing = tail.lstrip()
        # Tokenizers of some finetuned models have end tokens that are not marked as special.
        longest = sorted(added.items(), key=lambda entry: (entry[1].special, len(entry[1].content)), reverse=True)
        for number, token in longest:
            if token.content and closing.startswith(token.content):
                return number, closing.removeprefix(token.content)
        if self.tokenizer.eos_token_id is None:
            raise TemplateError("the model's tokenizer has no end-of-sequence token, so a response could never end")
        return int(self.tokenizer.eos_token_id), tail

    def _render(self, messages: list[dict[str, Any]]) -> str:
        if self._system_lists_tools and messages[0]["role"] == "system":
            messages = [messages[0] | self._definitions_as_text(), *messages[1:]]
        has_system = messages[0]["role"] == "system"
        if has_system and not self._merges_system:
            try:
                return self._apply(messages) + self._assistant_header
            except TemplateError:  # e.g. "System role not supported"
                pass
        if has_system:
            merged = {"role": "user", "content": messages[0]["content"] + "\n\n" + messages[1]["content"]}
            messages = [merged, *messages[2:]]
        return self._apply(messages) + self._assistant_header

    def _apply(self, messages: list[dict[str, Any]], *, generation_prompt: bool = True) -> str:
        """Return the messages as the template renders them. Raises TemplateError if it refuses them."""
        tools = {"tools": [tool.definition() for tool in self.tools]} if self.renders_tools else {}
        if self._requires_system and messages[0]["role"] != "system":
            messages = [{"role": "system", "content": ""}, *messages]
        if self._content_in_parts:
            messages = [message | {"content": _as_parts(message.get("content"))} for message in messages]
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages,
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **tools,
                **self._variables,
            )
        except Exception as error:  # templates may raise any error
            raise TemplateError(f"the model's chat template cannot render a dialogue: {error}") from error
        return text

    def _find_message_form(self) -> None:
        """Choose the form of messages: a template may require a system message, or contents as lists of parts.

        If no form renders, the form is as in most templates, and what calls this reports the template's own error.
        """
        question = [{"role": "user", "content": self._MARK_USER}]
        for self._content_in_parts, self._requires_system in product((False, True), repeat=2):
            try:
                if self._MARK_USER in self._apply(question):
                    return
            except TemplateError:
                pass
        self._content_in_parts = self._requires_system = False

    def _missing_header(self) -> str:
        """Return the text that begins a response in dialogues, for templates that ignore `add_generation_prompt`."""
        question = {"role": "user", "content": self._MARK_USER}
        prompt = self._apply([question])
        if prompt != self._apply([question], generation_prompt=False):
            return ""
        answered = self._apply([question, {"role": "assistant", "content": self._MARK_ASSISTANT}])
        header, mark, _ = answered.removeprefix(prompt).partition(self._MARK_ASSISTANT)
        return header.rstrip(" ") if mark and answered.startswith(prompt) else ""

    def _definitions_as_text(self) -> dict[str, str]:
        """Return fields of the system message from which some templates (Phi-4-mini, OLMo 3) take the definitions."""
        definitions = json.dumps([tool.definition()["function"] for tool in self.tools], ensure_ascii=False)
        return {"tools": definitions, "functions": definitions}

    def _renders_definitions(self) -> bool:
        try:
            opening = self._render([*self.system_messages(), {"role": "user", "content": "x"}])
        except TemplateError:
            return False
        return all(tool.name in opening for tool in self.tools)

    def _try_calls(self, chosen: CallFormat | None) -> None:
        """Detect the template's form of calls and results, and the format of calls unless it is chosen."""
        trial = copy.copy(self)
        trial.tools, trial.renders_tools = (TRIAL_TOOL,), True
        specials = [token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special]
        outcome = try_calls(
            trial._render_or_none,
            self._template,
            start=self._after_user,
            end=self.tokenizer.convert_ids_to_tokens(self.eos_id),
            specials=[token for token in specials if token],
            chosen=chosen,
        )
        self.call_format, self.call_notice, self._tool_messages = outcome.call_format, outcome.notice, outcome.messages
        if outcome.messages.end:
            end_id = self.tokenizer.convert_tokens_to_ids(outcome.messages.end)
            self.call_end_id = None if end_id == self.eos_id else end_id

    def _render_or_none(self, messages: list[dict[str, Any]]) -> str | None:
        try:
            return self._render(messages)
        except TemplateError:
            return None

    def _results(self, content: str) -> str:
        """Return the text from the end token of a response with calls to the next response; empty if there is none."""
        return self._tool_messages.results(self._render_or_none, self.tools[0].name, content)

    def end_id(self, role: Role) -> int:
        """Return the token that ends a response before a message of this role."""
        return self.eos_id if role == "user" or self.call_end_id is None else self.call_end_id

    @property
    def end_ids(self) -> frozenset[int]:
        """All tokens that end a response."""
        return self._model_end_ids | {self.end_id("user"), self.end_id("tool")}

    def is_ended(self, response: Sequence[int], role: Role) -> bool:
        """True if a response's last token is the one that ends it before a message of this role."""
        return list(response[-1:]) == [self.end_id(role)]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _encode_after(self, end_id: int, text: str) -> list[int]:
        """Token ids of text that follows an end token.

        Both are encoded together: SentencePiece tokenizers write a space before the first word of a text, and some end
        tokens (Phi 3) swallow the line break behind them.
        """
        ids = self._encode(self.tokenizer.convert_ids_to_tokens(end_id) + text)
        return ids[1:] if ids[:1] == [end_id] else self._encode(text)

    def encode_response(self, text: str) -> list[int]:
        """Return the token ids of a response's text, encoded behind the forced tag as it was sampled there.

        The policy may have sampled other ids for the same text.
        """
        forced, ids = self._encode(self.forced), self._encode(self.forced + text)
        if forced and ids[: len(forced)] == forced:
            return ids[len(forced) :]
        return self._encode_after(self.eos_id, text)  # no tag, or a token that contains its end and the text's start

    def system_messages(self) -> list[dict[str, str]]:
        """Return the system message, as a list of at most one."""
        return [{"role": "system", "content": self.system}] if self.system else []

    def opening(self, user: str) -> list[int]:
        """Return the token ids of system and first user message, up to the first sampled token."""
        messages = [*self.system_messages(), {"role": "user", "content": user}]
        return self._encode(self._render(messages) + self.forced)

    def between(self, user: str, *, ended: bool, role: Role = "user", earlier: Sequence[str] = ()) -> list[int]:
        """Return the token ids that follow a response and contain the next message.

        Args:
            user: the next message.
            role: `tool` for results of calls; the user's role if the template has no such role.
            ended: whether the response's last sampled token is the end token; if it was cut, the end token is added
                here, neither sampled nor trained on.
            earlier: results before this one, for formats with `separate_results`.
        """
        if role == "tool" and self.renders_results:
            text = self._results(user) + self.forced
        else:
            role, text = "user", self._before_user + user + self._after_user + self.forced
        end_id = self.end_id(role)
        ids = self._encode_after(end_id, text)
        return ids if ended else [end_id, *ids]

    def frame(self, role: Role | None) -> tuple[str, str]:
        """Return the template's text around a message: from the previous response to the first sampled token.

        It includes the end token of the previous response, which is not part of the response's text, and the forced
        tag.

        Args:
            role: role of the message; None for the first message of a dialogue, after the system message.
        """
        if role not in self._frames:
            mark = self._MARK_USER
            if role is None:
                text = self._render([*self.system_messages(), {"role": "user", "content": mark}])
            else:
                end = self.tokenizer.convert_ids_to_tokens(self.end_id(role))
                from_tool = role == "tool" and self.renders_results
                text = end + (self._results(mark) if from_tool else self._before_user + mark + self._after_user)
            prefix, _, suffix = text.partition(mark)
            self._frames[role] = (prefix, suffix + self.forced)
        return self._frames[role]

    def split_calls(self, ids: list[int]) -> tuple[str, tuple[str, ...]]:
        """Return the text of a response, and the calls reported separately from it, as actions: here there are none."""
        return self.decode(ids), ()

    def decode(self, ids: list[int]) -> str:
        """Decode sampled ids without the end token, and without NUL, which databases refuse."""
        if ids and ids[-1] in self.end_ids:
            ids = ids[:-1]
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
