"""Alphabet of byte-level BPE tokenizers: character of each byte."""

from __future__ import annotations


def _bytes_by_character() -> dict[str, int]:
    """Map printable bytes to themselves, and other bytes to characters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


BYTE_OF = _bytes_by_character()
