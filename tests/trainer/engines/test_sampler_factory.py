"""Engine registry, and the client of vLLM servers. The real vLLM is tested in tests/vllm."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import get_args

import pytest
from pydantic import ValidationError

from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from trainer.cli.main import parser
from trainer.config.engine import EAGER_VARIABLE, EngineConfig
from trainer.config.run import RunConfig
from trainer.engines.sampler_factory import ENGINES, make_sampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.engines.vllm import serve
from trainer.engines.vllm.vllm_client import ServerError, VllmServer
from trainer.engines.vllm.vllm_engine import lora_rank
from trainer.policy.load import ModelError


def engine(**values):
    return RunConfig.model_validate({"engine": values}).engine


@pytest.mark.parametrize(
    "values, problem",
    [
        ({"name": "server"}, "engine.urls is empty"),
        ({"urls": ["gpu1:8000"]}, "an address such as http://gpu1:8000"),
        ({"urls": ["http://gpu1:notaport"]}, "an address such as http://gpu1:8000"),
        ({"urls": ["http://a:1/latest/meta-data/?x=1#"]}, r"without \? and #"),
        ({"urls": ["http://a:1/#"]}, r"without \? and #"),
        ({"urls": ["http://a:1/?"]}, r"without \? and #"),
        ({"urls": ["http://key@a:1"]}, "must not hold a user name or key"),
        ({"urls": ["http://a:1\\@b:2"]}, "an address such as"),
        ({"urls": ["http://a:1", "http://a:1/v1"]}, "the same server twice"),
    ],
)
def test_invalid_engine_settings_are_refused_with_a_replacement(values, problem):
    with pytest.raises(ValidationError, match=problem):
        engine(**values)


def test_urls_may_have_the_api_path_and_may_be_a_single_string():
    assert engine(name="server", urls="http://gpu1:8000/v1/").urls == ["http://gpu1:8000"]


def test_vllm_refuses_temperatures_above_two():
    for sections in ({"rollout": {"temperature": 2.5}}, {"evaluation": {"temperature": 3.0}}):
        RunConfig.model_validate(sections)
        with pytest.raises(ValidationError, match="vLLM samples at temperatures up to 2"):
            RunConfig.model_validate(sections | {"engine": {"name": "vllm"}})


def test_lora_ranks_are_rounded_up_to_those_of_vllm():
    assert [lora_rank(rank) for rank in (1, 8, 9, 64, 400)] == [8, 8, 16, 64, 512]
    with pytest.raises(ModelError, match="rank 512 at most"):
        lora_rank(513)


def test_the_default_engine_is_transformers(policy, chat, tmp_path):
    assert isinstance(make_sampler(RunConfig(), policy, chat.eos_id, tmp_path), TransformersSampler)


def test_a_variable_switches_graphs_off(policy, chat, monkeypatch):
    for value, eager in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv(EAGER_VARIABLE, value)
        assert RunConfig().engine.eager is eager
    monkeypatch.setenv(EAGER_VARIABLE, "yes")
    with pytest.raises(ValueError, match="ECHOSCOPE_ENGINE_EAGER must be 0 or 1, not 'yes'"):
        make_sampler(RunConfig(), policy, chat.eos_id)


def test_the_setting_offers_exactly_the_registered_engines():
    assert sorted(get_args(EngineConfig.model_fields["name"].annotation)) == sorted(ENGINES)


def test_a_registered_engine_needs_one_loader(policy, chat, tmp_path, monkeypatch):
    """An engine takes a module with a sampler and a registry line; nothing else names engines."""

    def load(config, model_policy, eos_id, folder):
        assert (config.engine.name, model_policy, eos_id, folder) == ("toy", policy, chat.eos_id, tmp_path)
        return ScriptedSampler([])

    monkeypatch.setitem(ENGINES, "toy", load)
    config = RunConfig()
    config = config.model_copy(update={"engine": config.engine.model_copy(update={"name": "toy"})})
    assert isinstance(make_sampler(config, policy, chat.eos_id, tmp_path), ScriptedSampler)


def test_several_processes_are_refused_for_external_engines(policy, chat, monkeypatch):
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    assert make_sampler(RunConfig(), policy, chat.eos_id)
    with pytest.raises(ModelError, match="several work on this run: start it with one"):
        make_sampler(RunConfig.model_validate({"engine": {"name": "vllm"}}), policy, chat.eos_id)


def test_without_vllm_the_error_names_the_package_to_install(policy, chat, pocket_folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    config = tiny.config(pocket_folder, engine={"name": "vllm"})
    with pytest.raises(ModelError, match=r"pip install '\.\[vllm\]'.*make test-vllm"):
        make_sampler(config, policy, chat.eos_id)
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install '\.\[vllm\]'"):
        serve.command(parser().parse_args(["serve-vllm", "pocket"]))


def test_the_server_command_has_the_extension_and_extra_options(monkeypatch):
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: object())
    arguments = [
        "serve-vllm",
        "some/model",
        "--port",
        "8123",
        "--cpu",
        "--vllm-args",
        "--max-model-len 512",
    ]
    words, environment = serve.command(parser().parse_args(arguments))
    text = " ".join(words)
    for part in ("--model some/model", "--host 127.0.0.1", "--port 8123", serve.EXTENSION, "--enforce-eager"):
        assert part in text
    assert "--logprobs-mode processed_logprobs" in text
    assert text.endswith("--max-model-len 512")
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"


class FakeServer:
    """An HTTP server with the same API; `faults` are the outcomes of the next completion requests."""

    def __init__(self):
        self.version, self.faults, self.requests, self.loaded = "", [], [], []
        self.mode = "processed_logprobs"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                self.reply({"data": [{"id": "m", "max_model_len": 128}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
                if self.path == "/collective_rpc" and body["method"] == "take_weights":
                    outer.version = body["kwargs"]["version"]
                    outer.loaded.append(outer.version)
                if self.path != "/v1/completions":
                    held = {"version": outer.version, "logprobs_mode": outer.mode}
                    return self.reply({"results": [held]})
                outer.requests.append(body)
                match outer.faults.pop(0) if outer.faults else "":
                    case "dies":
                        outer.version = ""  # restarts without weights
                        return self.connection.close()
                    case "status":
                        return self.reply({"error": "no"}, 500)
                    case "rejects":
                        return self.reply({"error": "too long"}, 400)
                    case reason:
                        return self.reply({"choices": [{"finish_reason": reason or "stop"}]})

            def reply(self, content, status=200):
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def fake_server():
    made = FakeServer()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def server(fake_server, monkeypatch):
    monkeypatch.setattr("trainer.engines.vllm.vllm_client._RETRY_SECONDS", 0.01)
    made = VllmServer(fake_server.url, timeout=20)
    made.connect(128)
    made.load_weights("/shared/1", "run-1")
    yield made
    made.close()


def test_a_request_is_repeated_unchanged_after_a_restarted_server_has_its_weights(server, fake_server):
    fake_server.faults = ["dies", "status", "abort"]
    assert server.complete({"prompt": [1, 2], "seed": 5})["choices"][0]["finish_reason"] == "stop"
    assert fake_server.requests == [{"model": "m", "prompt": [1, 2], "seed": 5}] * 4
    assert fake_server.loaded == ["run-1", "run-1"]
    assert server.restarts == 1


def test_a_rejected_request_is_not_repeated_and_its_answer_goes_to_the_log_alone(server, fake_server, caplog):
    fake_server.faults = ["rejects"]
    with pytest.raises(ServerError, match=r"rejects /v1/completions \(status 400; the log holds") as refusal:
        server.complete({"prompt": [1]})
    assert len(fake_server.requests) == 1
    assert "too long" not in str(refusal.value)
    assert "too long" in caplog.text


def test_a_healthy_server_that_never_completes_a_request_ends_the_run(server, fake_server):
    server.timeout = 0.05
    fake_server.faults = ["status"] * 10_000
    with pytest.raises(ServerError, match="does not complete requests: status 500"):
        server.complete({"prompt": [1]})


def test_silently_lost_weights_are_detected(server, fake_server):
    server.check()
    fake_server.version = ""
    with pytest.raises(ServerError, match="lost its weights during a rollout"):
        server.check()


def test_a_server_with_other_log_probabilities_is_refused(server, fake_server):
    fake_server.mode = "raw_logprobs"
    with pytest.raises(ServerError, match="leave --logprobs-mode out of --vllm-args"):
        server.connect(128)


def test_a_server_with_a_shorter_context_is_refused(server):
    with pytest.raises(ServerError, match="start it with --vllm-args '--max-model-len 4096'"):
        server.connect(4096)
