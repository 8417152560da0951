"""Fit of a run on a worker: unreserved GPUs, free memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.pages.runs.test_worker_views import GIB
from webapp.runs.queue.placement import (
    Allocation,
    GpuCapacity,
    ResourceRequest,
    WorkerCapacity,
    could_fit,
    lacks_gpus_only,
    measure_capacity,
    reserve,
)

MACHINE = WorkerCapacity(("training", "cpu"), total=16 * GIB, free=8 * GIB)


def rack(*runs: int, share: int = 1) -> WorkerCapacity:
    """A worker with one 24 GiB GPU per argument: the number of runs that reserved it."""
    gpus = tuple(GpuCapacity(str(number), 24 * GIB, 24 * GIB, count) for number, count in enumerate(runs))
    return WorkerCapacity(("training", "gpu"), gpus, share, 64 * GIB, 64 * GIB)


def test_a_run_gets_unused_gpus() -> None:
    assert reserve(ResourceRequest("gpu", 2), rack(0, 1, 0, 0)) == ("0", "2")
    assert reserve(ResourceRequest("gpu", 2), rack(0, 1)) is None
    assert reserve(ResourceRequest("gpu", 1), rack(1, 1)) is None


def test_runs_share_a_gpu_only_if_the_worker_allows_it() -> None:
    assert reserve(ResourceRequest("gpu", 1), rack(1, share=2)) == ("0",)
    assert reserve(ResourceRequest("gpu", 1), rack(1, 0, share=2)) == ("1",), "the emptiest first"
    assert reserve(ResourceRequest("gpu", 2), rack(0, share=2)) is None, "two GPUs are two, not the same one twice"


def test_runs_with_an_optional_gpu_take_one_if_available() -> None:
    optional = ResourceRequest("training", 1, optional=True)
    assert reserve(optional, MACHINE) == ()
    assert reserve(optional, rack(0)) == ("0",)
    assert reserve(optional, rack(1)) is None
    assert reserve(ResourceRequest("training", 1), MACHINE) is None
    assert reserve(ResourceRequest("training", 0), rack(1)) == (), "and what wants none leaves them alone"


def test_a_worker_claims_only_its_own_classes() -> None:
    assert reserve(ResourceRequest("gpu", 1, optional=True), MACHINE) is None
    assert reserve(ResourceRequest("h100", 1), rack(0)) is None


def test_memory_must_be_free_on_each_gpu_or_on_the_host() -> None:
    assert reserve(ResourceRequest("gpu", 1, 30 * GIB), rack(0, 0)) is None
    assert reserve(ResourceRequest("gpu", 2, 30 * GIB), rack(0, 0)) == ("0", "1")
    assert reserve(ResourceRequest("cpu", 0, 9 * GIB), MACHINE) is None
    assert could_fit(ResourceRequest("cpu", 0, 9 * GIB), MACHINE)
    assert not could_fit(ResourceRequest("cpu", 0, 17 * GIB), MACHINE)
    unknown = WorkerCapacity(("cpu",))
    assert reserve(ResourceRequest("cpu", 0, 10**15), unknown) == (), "what nobody measured stops nobody"


def test_only_a_lack_of_free_gpus_reserves_a_worker() -> None:
    assert lacks_gpus_only(ResourceRequest("gpu", 2), rack(1, 0))
    assert not lacks_gpus_only(ResourceRequest("gpu", 3), rack(1, 0)), "it never fits"
    assert not lacks_gpus_only(
        ResourceRequest("gpu", 1, 23 * GIB), WorkerCapacity(("gpu",), (GpuCapacity("0", 24 * GIB, GIB),))
    )


def test_a_starting_run_counts_with_its_estimated_memory() -> None:
    gpus = [{"id": "0", "name": "H", "total": 24 * GIB, "free": 23 * GIB}]
    memory = [{"name": "Machine", "total": 16 * GIB, "free": 15 * GIB}]
    held = [Allocation(("0",), 20 * GIB), Allocation((), 6 * GIB)]
    room = measure_capacity(["gpu"], gpus, memory, 2, held)
    assert (room.gpus[0].free, room.gpus[0].runs, room.free) == (4 * GIB, 1, 10 * GIB)
    measured = measure_capacity(["gpu"], [gpus[0] | {"free": GIB}], memory, 2, held)
    assert measured.gpus[0].free == GIB, "what others take counts too"


@given(
    counts=st.lists(st.integers(0, 3), max_size=6),
    share=st.integers(1, 3),
    wanted=st.integers(0, 6),
    optional=st.booleans(),
)
def test_a_reservation_never_gives_a_gpu_to_more_runs_than_may_share_it(
    counts: list[int], share: int, wanted: int, optional: bool
) -> None:
    room = rack(*counts, share=share)
    got = reserve(ResourceRequest("training", wanted, optional=optional), room)
    if got is None:
        return
    assert len(set(got)) == len(got) == (wanted if room.gpus or not optional else 0)
    assert all(counts[int(gpu)] < share for gpu in got)
