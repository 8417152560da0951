"""Full disks are recognised whichever library reports them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainer.journal.disk_space import free_bytes, is_full, says_full


def raised_from(cause: BaseException) -> BaseException:
    try:
        raise RuntimeError("the checkpoint cannot be written") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), True),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), True),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), True),
        (raised_from(OSError(errno.ENOSPC, "")), True),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), False),
        (raised_from(ValueError("nan")), False),
    ],
)
def test_errors(error: BaseException, full: bool) -> None:
    assert is_full(error) is full


def test_a_log_that_mentions_it() -> None:
    assert says_full("Traceback …\nOSError: [Errno 28] No space left on device: '/data/runs'")
    assert says_full("Traceback …\nFileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']")
    assert not says_full("Traceback …\nValueError: 28")


def test_free_space_of_a_missing_folder_is_that_of_its_disk(tmp_path: Path) -> None:
    sizes = os.statvfs(tmp_path)
    assert 0 < free_bytes(tmp_path / "not" / "yet") <= sizes.f_blocks * sizes.f_frsize
