"""Control channels between rank 0 and the other ranks: commands out, events and results back.

A broken channel shows at once that the process at its other end has ended.
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
    """Another process of the run has ended or does not respond. The message says which one."""


class ControlChannel:
    """Bidirectional channel of Python objects; tensors are pickled, not shared as by multiprocessing."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: Any) -> None:
        """Send a message. Raises OSError if disconnected."""
        self.connection.send_bytes(pickle.dumps(message))

    def recv(self) -> Any:
        """Wait for the next message. Raises EOFError if disconnected."""
        return pickle.loads(self.connection.recv_bytes())

    def poll(self, seconds: float = 0.0) -> bool:
        """Whether a message or a disconnection is pending."""
        return self.connection.poll(seconds)

    def close(self) -> None:
        """Disconnect; the other end notices."""
        self.connection.close()


def connect(rank: int, size: int, share: Callable[[Any], Any], patience: float) -> list[ControlChannel]:
    """Channels from rank 0 to all other ranks (by rank), or from another rank to rank 0.

    Args:
        rank, size: rank of this process, world size.
        share: broadcasts rank 0's value.
        patience: seconds to wait for all ranks.
    Raises:
        RankLostError: a rank does not connect.
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
    """Call `lost` with the first rank whose channel breaks, unless `ended` is set before. Reads no messages."""
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
