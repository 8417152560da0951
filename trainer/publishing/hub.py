"""Upload of a folder to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError  # type: ignore[attr-defined]
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

Kind = Literal["model", "dataset"]


class PushRefused(ValueError):
    """An upload cannot succeed as requested. The message suggests a remedy."""


class PushFailed(OSError):
    """The Hub or the network ended an upload. The message gives the reason; the folder is complete."""


def check_push(repository: str) -> None:
    """Check name and token, before anything is written. Raises PushRefused."""
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise PushRefused(f"--push {repository}: {error}") from error
    if repository.count("/") != 1:
        raise PushRefused(f"--push takes OWNER/NAME, as in ada/sokoban-agent, not {repository!r}")
    if get_token() is None:
        raise PushRefused(
            "--push needs a token of the Hugging Face Hub with the right to write: run 'hf auth login', or set HF_TOKEN"
        )


def push(folder: Path, repository: str, kind: Kind, *, private: bool, message: str) -> str:
    """Create the repository unless it exists, and upload the folder in one commit.

    Args:
        folder: all files in it are uploaded.
        repository: OWNER/NAME.
        private: visible to members only; an existing public repository is then refused.
        message: commit message.
    Returns:
        The address of the repository.
    Raises:
        PushRefused: the repository exists and is public, although it should be private.
        PushFailed: the Hub refused the upload, or cannot be reached.
    """
    api = HfApi(library_name="echoscope")
    try:
        address = api.create_repo(repository, repo_type=kind, private=private or None, exist_ok=True)
        if private and not api.repo_info(repository, repo_type=kind).private:
            raise PushRefused(
                f"{address} exists and is public: nothing was uploaded. Make it private in its settings, choose "
                "another name, or omit --private"
            )
        api.upload_folder(folder_path=folder, repo_id=repository, repo_type=kind, commit_message=message)
    except PushRefused:
        raise
    except HfHubHTTPError as error:
        status = error.response.status_code
        hint = " Check that the token may write there." if status in (401, 403) else ""
        raise PushFailed(
            _failed(folder, repository, kind, f"the Hub answered {status}: {_first(error)}{hint}")
        ) from error
    except (HTTPError, OSError, ValueError) as error:
        raise PushFailed(_failed(folder, repository, kind, _first(error))) from error
    return str(address)


def _failed(folder: Path, repository: str, kind: Kind, reason: str) -> str:
    option = " --repo-type dataset" if kind == "dataset" else ""
    return (
        f"{repository} was not uploaded: {reason} {folder} is complete; to upload it later: "
        f"hf upload {repository} {folder}{option}"
    )


def _first(error: Exception) -> str:
    """Return the first informative line of the message, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = getattr(error, "server_message", None) or (lines[0] if lines else type(error).__name__)
    return f"{str(text).rstrip('.')}."
