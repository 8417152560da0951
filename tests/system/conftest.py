"""The whole product with the real trainer and a real browser, for tests that kill its processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import migrated_database, running_product
from tests.running_product import LiveStack


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A running Echoscope of this test alone."""
    home = tmp_path_factory.mktemp("broken")
    migrated_database.prepare(home)
    stack = running_product.start(home)
    yield stack
    running_product.stop(stack)
