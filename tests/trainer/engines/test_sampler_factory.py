"""Which engine a run's settings ask for, and a server's absences. The real vLLM is tested in tests/vllm."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import ValidationError

from tests.trainer import tiny
from trainer.cli.main import parser
from trainer.config.run import RunConfig
from trainer.engines.sampler_factory import make_sampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.engines.vllm import serve
from trainer.engines.vllm.vllm_client import ServerError, VllmServer
from trainer.engines.vllm.vllm_engine import logprobs_mode, lora_rank
from trainer.policy.load import ModelError


def engine(**values):
    return RunConfig.model_validate({"engine": values}).engine


@pytest.mark.parametrize(
    "values, problem",
    [
        ({"name": "server"}, "engine.urls is empty"),
        ({"urls": ["gpu1:8000"]}, "addresses such as http://gpu1:8000"),
        ({"urls": ["http://gpu1:notaport"]}, "addresses such as http://gpu1:8000"),
        ({"urls": ["http://a:1", "http://a:1/v1"]}, "the same server twice"),
    ],
)
def test_an_engine_that_cannot_be_is_refused_with_what_to_write_instead(values, problem):
    with pytest.raises(ValidationError, match=problem):
        engine(**values)


def test_addresses_are_taken_with_or_without_the_api_path_and_one_is_a_list_of_one():
    assert engine(name="server", urls="http://gpu1:8000/v1/").urls == ["http://gpu1:8000"]


def test_vllm_is_told_what_our_log_probabilities_are_or_the_settings_are_refused():
    assert logprobs_mode(RunConfig.model_validate({"rollout": {"temperature": 0.7}}).rollout) == "processed_logprobs"
    assert logprobs_mode(RunConfig.model_validate({"rollout": {"top_k": 5}}).rollout) == "raw_logprobs"
    both = {"rollout": {"top_k": 5, "temperature": 0.7}}
    RunConfig.model_validate(both)
    with pytest.raises(ValidationError, match=r"rollout\.top_k set, rollout\.temperature must be 1"):
        RunConfig.model_validate(both | {"engine": {"name": "vllm"}})


def test_vllm_draws_at_no_temperature_above_two():
    for hot in ({"rollout": {"temperature": 2.5}}, {"evaluation": {"temperature": 3.0}}):
        RunConfig.model_validate(hot)
        with pytest.raises(ValidationError, match="vLLM samples at temperatures up to 2"):
            RunConfig.model_validate(hot | {"engine": {"name": "vllm"}})


def test_adapters_have_a_rank_that_vllm_knows():
    assert [lora_rank(rank) for rank in (1, 8, 9, 64, 400)] == [8, 8, 16, 64, 512]
    with pytest.raises(ModelError, match="rank 512 at most"):
        lora_rank(513)


def test_the_default_is_the_trainers_own_model(policy, chat, tmp_path):
    assert isinstance(make_sampler(RunConfig(), policy, chat.eos_id, tmp_path), TransformersSampler)


def test_several_processes_are_refused_for_engines_that_are_given_weights(policy, chat, monkeypatch):
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    assert make_sampler(RunConfig(), policy, chat.eos_id)
    with pytest.raises(ModelError, match="several work on this run: start it with one"):
        make_sampler(RunConfig.model_validate({"engine": {"name": "vllm"}}), policy, chat.eos_id)


def test_without_vllm_it_is_said_what_to_install(policy, chat, pocket_folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    config = tiny.config(pocket_folder, engine={"name": "vllm"})
    with pytest.raises(ModelError, match=r"pip install '\.\[vllm\]'.*make test-vllm"):
        make_sampler(config, policy, chat.eos_id)
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install '\.\[vllm\]'"):
        serve.command(parser().parse_args(["serve-vllm", "pocket"]))


def test_the_server_is_vllms_own_with_our_extension_and_what_else_was_given(monkeypatch):
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: object())
    given = [
        "serve-vllm",
        "some/model",
        "--port",
        "8123",
        "--raw-logprobs",
        "--cpu",
        "--vllm-args",
        "--max-model-len 512",
    ]
    words, environment = serve.command(parser().parse_args(given))
    text = " ".join(words)
    for part in ("--model some/model", "--host 127.0.0.1", "--port 8123", serve.EXTENSION, "--enforce-eager"):
        assert part in text
    assert "--logprobs-mode raw_logprobs" in text
    assert text.endswith("--max-model-len 512")
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"


class Talking:
    """A real HTTP server that speaks as ours do; `trouble` holds what happens to the next completions instead."""

    def __init__(self):
        self.version, self.trouble, self.asked, self.given = "", [], [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                self.answer({"data": [{"id": "m", "max_model_len": 128}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
                if self.path == "/collective_rpc" and body["method"] == "take_weights":
                    outer.version = body["kwargs"]["version"]
                    outer.given.append(outer.version)
                if self.path != "/v1/completions":
                    held = {"version": outer.version, "logprobs_mode": "processed_logprobs"}
                    return self.answer({"results": [held]})
                outer.asked.append(body)
                match outer.trouble.pop(0) if outer.trouble else "":
                    case "dies":
                        outer.version = ""  # and comes back as it was first started
                        return self.connection.close()
                    case "status":
                        return self.answer({"error": "no"}, 500)
                    case "refuses":
                        return self.answer({"error": "too long"}, 400)
                    case broken:
                        return self.answer({"choices": [{"finish_reason": broken or "stop"}]})

            def answer(self, content, status=200):
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def talking():
    made = Talking()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def server(talking, monkeypatch):
    monkeypatch.setattr("trainer.engines.vllm.vllm_client._PAUSE", 0.01)
    made = VllmServer(talking.url, patience=20)
    made.meet(128, "processed_logprobs")
    made.give("/shared/1", "run-1")
    yield made
    made.close()


def test_a_request_is_asked_again_unchanged_and_a_restarted_server_is_given_the_weights_first(server, talking):
    talking.trouble = ["dies", "status", "abort"]
    assert server.complete({"prompt": [1, 2], "seed": 5})["choices"][0]["finish_reason"] == "stop"
    assert talking.asked == [{"model": "m", "prompt": [1, 2], "seed": 5}] * 4
    assert talking.given == ["run-1", "run-1"]
    assert server.restarts == 1


def test_a_refusal_is_told_and_not_repeated(server, talking):
    talking.trouble = ["refuses"]
    with pytest.raises(ServerError, match=r"refuses /v1/completions \(400\).*too long"):
        server.complete({"prompt": [1]})
    assert len(talking.asked) == 1


def test_a_server_that_is_there_but_never_answers_ends_the_run(server, talking):
    server.patience = 0.05
    talking.trouble = ["status"] * 10_000
    with pytest.raises(ServerError, match="does not complete a request: status 500"):
        server.complete({"prompt": [1]})


def test_weights_that_were_lost_unnoticed_are_found_out(server, talking):
    server.check()
    talking.version = ""
    with pytest.raises(ServerError, match="lost its weights during a rollout"):
        server.check()


def test_a_server_for_shorter_dialogues_is_refused(server):
    with pytest.raises(ServerError, match="start it with --vllm-args '--max-model-len 4096'"):
        server.meet(4096, "processed_logprobs")
