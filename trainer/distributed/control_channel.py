"""Wires between the main process of a run and its others: orders one way, events and answers the other way.

A wire that breaks says at once that the process at its end is gone, however it ended. What is said is not known here.
"""

from __future__ import annotations

import os
import pickle
import secrets
import select
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

_LOOPBACK = "127.0.0.1"


class RankLostError(RuntimeError):
    """Another process of the run is gone or does not answer. The message says which one."""


class ControlChannel:
    """Carries Python objects both ways; tensors go as they are, not through shared memory as multiprocessing has it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Any) -> None:
        """Raises OSError when nobody is at the other end any more."""
        self.connection.send_bytes(pickle.dumps(message))

    def recv(self) -> Any:
        """The next message, waiting for it. Raises EOFError when nobody is at the other end any more."""
        return pickle.loads(self.connection.recv_bytes())

    def poll(self, seconds: float = 0.0) -> bool:
        """Whether there is something to hear: a message, or that the other end is gone."""
        return self.connection.poll(seconds)

    def close(self) -> None:
        """Whoever is at the other end hears of it."""
        self.connection.close()


def connect(rank: int, size: int, share: Callable[[Any], Any], patience: float) -> list[ControlChannel]:
    """Wires from the main process to all others (in the order of their numbers), or from another to the main one.

    Args:
        rank, size: which process this is, of how many.
        share: gives every process what the main one has.
        patience: seconds to wait for all to be there.
    Raises:
        LostError: one does not come.
    """
    if rank:
        host, port, key = share(None)
        wire = ControlChannel(Client((host, port), authkey=key))
        wire.send(rank)
        return [wire]
    alone_here = os.environ.get("LOCAL_WORLD_SIZE") == str(size)
    key = secrets.token_bytes(32)
    listener = Listener((_LOOPBACK if alone_here else "", 0), authkey=key)
    found: dict[int, ControlChannel] = {}

    def welcome() -> None:
        while len(found) < size - 1:
            wire = ControlChannel(listener.accept())
            found[int(wire.recv())] = wire

    door = threading.Thread(target=welcome, name="wires", daemon=True)
    door.start()
    host = _LOOPBACK if alone_here else os.environ["MASTER_ADDR"]
    share((host, listener.address[1], key))
    door.join(patience)
    if door.is_alive():
        missing = [number for number in range(1, size) if number not in found]
        raise RankLostError(
            f"process {missing[0]} of {size} did not come within {patience:g} seconds: see its own output"
        )
    listener.close()
    return [found[number] for number in range(1, size)]


def monitor(wires: list[ControlChannel], lost: Callable[[int], None], ended: threading.Event) -> None:
    """Call `lost` with the number of the first process whose wire breaks, unless `ended` is set before.

    Only breaking is noticed: what lies on a wire is left there.
    """
    poller = select.poll()
    for wire in wires:
        poller.register(wire.connection.fileno(), select.POLLHUP | select.POLLERR | select.POLLRDHUP)
    numbers = {wire.connection.fileno(): number for number, wire in enumerate(wires, start=1)}
    while not ended.is_set():
        broken = [handle for handle, _ in poller.poll(500)]
        if broken and not ended.is_set():
            lost(numbers[broken[0]])
            return
        time.sleep(0.01)
