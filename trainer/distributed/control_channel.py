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


def connect(rank: int, size: int, broadcast: Callable[[Any], Any], timeout: float) -> list[ControlChannel]:
    """Channels from rank 0 to all other ranks (by rank), or from another rank to rank 0.

    Args:
        rank, size: rank of this process, number of processes.
        broadcast: returns rank 0's argument on all ranks.
        timeout: seconds to wait for all ranks.
    Raises:
        RankLostError: a rank does not connect.
    """
    if rank:
        host, port, key = broadcast(None)
        channel = ControlChannel(Client((host, port), authkey=key))
        channel.send(rank)
        return [channel]
    single_host = os.environ.get("LOCAL_WORLD_SIZE") == str(size)
    key = secrets.token_bytes(32)
    listener = Listener((_LOOPBACK if single_host else "", 0), authkey=key)
    channels: dict[int, ControlChannel] = {}

    def accept() -> None:
        while len(channels) < size - 1:
            channel = ControlChannel(listener.accept())
            channels[int(channel.recv())] = channel

    acceptor = threading.Thread(target=accept, name="accept-ranks", daemon=True)
    acceptor.start()
    host = _LOOPBACK if single_host else os.environ["MASTER_ADDR"]
    broadcast((host, listener.address[1], key))
    acceptor.join(timeout)
    if acceptor.is_alive():
        missing = [number for number in range(1, size) if number not in channels]
        raise RankLostError(
            f"process {missing[0]} of {size} did not connect within {timeout:g} seconds: see its own output"
        )
    listener.close()
    return [channels[number] for number in range(1, size)]


def monitor(channels: list[ControlChannel], lost: Callable[[int], None], ended: threading.Event) -> None:
    """Call `lost` with the first rank whose channel breaks, unless `ended` is set before. Reads no messages."""
    poller = select.poll()
    for channel in channels:
        poller.register(channel.connection.fileno(), select.POLLHUP | select.POLLERR | select.POLLRDHUP)
    numbers = {channel.connection.fileno(): number for number, channel in enumerate(channels, start=1)}
    while not ended.is_set():
        broken = [handle for handle, _ in poller.poll(500)]
        if broken and not ended.is_set():
            lost(numbers[broken[0]])
            return
        time.sleep(0.01)
