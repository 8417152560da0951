"""Placement of Ray actors: sums of resources and their text. Reservations are tested with the actors of whole runs."""

from __future__ import annotations

from trainer.cluster.actor_placement import resources_as_text, total


def test_resources_are_summed_and_named():
    assert total([{"CPU": 1.0, "GPU": 1.0}, {"CPU": 0.5, "GPU": 0.0}]) == {"CPU": 1.5, "GPU": 1.0}
    assert resources_as_text({"CPU": 2, "GPU": 1, "memory": 5}) == "2 CPUs and 1 GPU"
    assert resources_as_text({}) == "nothing"
