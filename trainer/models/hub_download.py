"""Download of a model from the Hugging Face Hub: safetensors, configuration and tokenizer only."""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.models import check, store
from trainer.models.progress import Report, watching_folder
from trainer.models.store import ModelStoreError, ResumableError

_WANTED = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template*",
    "LICENSE*",
)
_UNWANTED = ("consolidated*",)
"""Weights once more, in another layout (Mistral)."""
_UNREACHABLE = "cannot be reached ({}): check the network, or set HTTPS_PROXY or HF_ENDPOINT"


@dataclass(frozen=True)
class Snapshot:
    """A downloaded revision.

    Attributes:
        commit: that was downloaded.
        sha256: digests of the files.
        licence: as the repository states it, in the Hub's short form, or "".
    """

    commit: str
    sha256: dict[str, str]
    licence: str


def download_snapshot(repository: str, revision: str, folder: Path, report: Report) -> Snapshot:
    """Download a repository's model into a folder, continuing what is there.

    Raises:
        ModelStoreError: it does not exist, has no safetensors, its licence was not accepted, or the disk is too small.
        ResumableError: the Hub cannot be reached.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    with _explained(repository, revision):
        info = HfApi().model_info(repository, revision=revision, files_metadata=True)
        files = {entry.rfilename: entry for entry in _wanted(info.siblings or ())}
        if not any(name.endswith(".safetensors") for name in files):
            raise ModelStoreError(
                f"{repository} has no *.safetensors file; no other format of weights is fetched. Of a GGUF repository, "
                "download one file and use `python -m trainer models import FILE`"
            )
        total = sum(int(entry.size or 0) for entry in files.values())
        store.require_space(total - store.folder_bytes(folder))
        with watching_folder(folder, total, report):
            snapshot_download(repository, revision=info.sha, local_dir=folder, allow_patterns=list(files))
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # with which the client continues a download
    sha256 = check.digests({name: folder / name for name in files}, report)
    for name, entry in files.items():
        expected = getattr(entry.lfs, "sha256", None)
        if expected and expected != sha256[name]:
            (folder / name).unlink()
            raise ResumableError(f"sent a damaged {name}: repeat the command, which fetches it again")
    return Snapshot(str(info.sha), sha256, str(getattr(info.card_data, "license", None) or ""))


@contextmanager
def _explained(repository: str, revision: str) -> Iterator[None]:
    """Raise ModelStoreError or ResumableError, with advice, for errors of the Hub's client."""
    from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError, of the HTTP library that it uses
        GatedRepoError,
        HfHubHTTPError,
        HTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError as error:
        raise ModelStoreError(
            f"its licence must be accepted: log in at https://huggingface.co/{repository}, accept it there, then set "
            "HF_TOKEN to an access token of that account (or run `hf auth login`) and repeat the command"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelStoreError(f"{repository} has no revision {revision!r}: name a commit, tag or branch") from error
    except RepositoryNotFoundError as error:
        raise ModelStoreError(
            f"there is no model {repository} on the Hub, or it is private: check the name, or set HF_TOKEN to an "
            "access token of an account that may read it"
        ) from error
    except OfflineModeIsEnabled as error:
        raise ResumableError("is not asked, because HF_HUB_OFFLINE is set") from error
    except HfHubHTTPError as error:
        raise ResumableError(f"answered with an error ({_short(error)}): try again later") from error
    except (HTTPError, LocalEntryNotFoundError, ConnectionError, TimeoutError) as error:
        raise ResumableError(_UNREACHABLE.format(_short(error))) from error


def _wanted(siblings: Iterable[Any]) -> list[Any]:
    """Return the files at the top of a repository that are loaded."""
    return [
        entry
        for entry in siblings
        if "/" not in entry.rfilename
        and any(fnmatch.fnmatchcase(entry.rfilename, pattern) for pattern in _WANTED)
        and not any(fnmatch.fnmatchcase(entry.rfilename, pattern) for pattern in _UNWANTED)
    ]


def _short(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return text or type(error).__name__
