"""Time to the first token under new weights: measured with the engine of this process."""

from __future__ import annotations

import pytest

from bench.scale import first_token


def test_weights_pass_to_no_other_process_by_default() -> None:
    found = first_token.measure("transformers", "tiny", rounds=1)
    assert found.size == 0
    assert 0 <= found.weights < found.token
    assert "| transformers | tiny | 0 MB |" in first_token.table([found])


def test_a_rollout_actor_has_the_new_weights() -> None:
    pytest.importorskip("ray")
    found = first_token.measure("actor", "tiny", rounds=1)  # raises if the actor's weights are others
    assert found.size > 10**5
    assert found.weights < found.token
