"""Sizes of models on the Hugging Face Hub in the launch form: read from a real server, once, and never waited for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.core.cache import caches
from huggingface_hub import constants

from tests.local_http import serving
from tests.webapp.conftest import People
from trainer.config.run import RunConfig
from webapp.runs.inputs.hub_shapes import MAX_BYTES, hub_shape, known_hub_shape
from webapp.runs.launch import estimates

MODEL = "ada/difference-engine-1b"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


@pytest.fixture(autouse=True)
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """(path, authorization) of the requests to the hub of this test, which has MODEL alone."""
    seen: list[tuple[str, str]] = []
    files: dict[str, bytes] = {
        f"/{MODEL}/resolve/main/config.json": json.dumps(CONFIG).encode(),
        f"/{MODEL}/resolve/long/config.json": b" " * MAX_BYTES + json.dumps(CONFIG).encode(),
        f"/{MODEL}/resolve/broken/config.json": b"{",
        f"/{MODEL}/resolve/list/config.json": b"[1]",
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization", "")))
            data = files.get(self.path)
            self.send_response(200 if data is not None else 404)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *arguments: Any) -> None:
            pass

    with serving(Handler) as port:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        caches["hub"].clear()
        yield seen


def memory(people: People, **policy: str) -> str:
    config = RunConfig.model_validate({"policy": {"model": MODEL} | policy})
    return next(figure.value for figure in estimates.figures(people.owner, config) if figure.title == "Memory")


def test_the_size_of_a_model_is_looked_up_once_and_without_a_token(
    people: People, requests: list[tuple[str, str]]
) -> None:
    assert known_hub_shape(MODEL) is None
    assert memory(people).startswith("about ")
    assert memory(people).startswith("about ")
    known = known_hub_shape(MODEL)
    assert known is not None
    assert 1.2e9 < known.parameters < 1.3e9
    assert requests == [(f"/{MODEL}/resolve/main/config.json", "")]


def test_the_queue_requests_the_memory_of_a_model_that_was_looked_up(people: People) -> None:
    config = RunConfig.model_validate({"policy": {"model": MODEL}})
    assert estimates.needed_memory(config, 1) is None, "a page that many open asks no other server"
    memory(people)
    needed = estimates.needed_memory(config, 1)
    assert needed is not None
    assert needed > 4 * 1.2e9


@pytest.mark.parametrize("revision", ["missing", "long", "broken", "list"])
def test_what_cannot_be_read_is_unknown_for_a_while(
    revision: str, people: People, requests: list[tuple[str, str]]
) -> None:
    assert memory(people, revision=revision) == "unknown"
    assert memory(people, revision=revision) == "unknown"
    assert len(requests) == 1


def test_a_hub_that_does_not_answer_leaves_the_size_unknown(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert memory(people) == "unknown"


def test_an_offline_site_sends_no_request(
    people: People, requests: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert memory(people) == "unknown"
    assert hub_shape("no hub id at all") is None
    assert requests == []
