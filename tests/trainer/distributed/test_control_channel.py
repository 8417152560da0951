"""Control channels between ranks: messages arrive, a broken channel is detected at once."""

import queue
import threading

import pytest
import torch

from trainer.distributed import control_channel
from trainer.distributed.control_channel import RankLostError


def connected(monkeypatch, size):
    """The channels of rank 0 and of the other ranks, all in this process."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(size))
    received = [queue.Queue() for _ in range(size)]

    def share(given):
        for box in received[1:]:
            box.put(given)

    others = {}

    def come(rank):
        others[rank] = control_channel.connect(rank, size, lambda _: received[rank].get(timeout=60), 60)[0]

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(1, size)]
    for thread in threads:
        thread.start()
    mine = control_channel.connect(0, size, share, 60)
    for thread in threads:
        thread.join()
    return mine, [others[rank] for rank in range(1, size)]


def test_commands_and_results_reach_their_rank(monkeypatch):
    mine, others = connected(monkeypatch, 3)
    for number, wire in enumerate(mine, start=1):
        wire.send(("order", number, torch.arange(3)))
    for number, wire in enumerate(others, start=1):
        kind, to, tensor = wire.recv()
        assert (kind, to, tensor.tolist()) == ("order", number, [0, 1, 2])
        wire.send(number * 10)
    assert [wire.recv() for wire in mine] == [10, 20]


def test_a_missing_rank_is_named(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(RankLostError, match=r"process 1 of 2 did not come within 0\.2 seconds"):
        control_channel.connect(0, 2, lambda given: given, 0.2)


def test_a_broken_channel_is_detected_and_one_with_messages_is_not(monkeypatch):
    mine, others = connected(monkeypatch, 3)
    lost, ended = queue.Queue(), threading.Event()
    watch = threading.Thread(target=control_channel.monitor, args=(mine, lost.put, ended))
    watch.start()
    others[0].send("news")
    assert mine[0].poll(60)
    assert lost.empty()
    others[1].close()
    assert lost.get(timeout=60) == 2
    watch.join(60)
    assert mine[0].recv() == "news"
    with pytest.raises(EOFError):
        mine[1].recv()


def test_channels_closed_at_the_end_are_not_reported(monkeypatch):
    mine, others = connected(monkeypatch, 2)
    lost, ended = [], threading.Event()
    watch = threading.Thread(target=control_channel.monitor, args=(mine, lost.append, ended))
    watch.start()
    ended.set()
    others[0].close()
    watch.join(60)
    assert not lost
    assert not watch.is_alive()
