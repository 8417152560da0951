"""Peak speeds of GPUs, for the share of them that a computation reaches (MFU)."""

from __future__ import annotations

PEAKS = {
    "B200": 2250,
    "H200": 989,
    "GH200": 989,
    "H100 PCIe": 756,
    "H100 NVL": 835,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "L4": 121,
    "A10": 125,
    "A6000": 155,
    "RTX 6000 Ada": 364,
    "RTX 4090": 165,
    "RTX 3090": 71,
}
"""TFLOP/s, dense bf16 with fp32 accumulation, from the makers' data sheets; the first name that fits counts."""


def peak_of(name: str) -> float | None:
    """Peak FLOP/s of a device by name; None if it is not in the table."""
    words = name.split()
    for device, tera in PEAKS.items():
        if any(words[at : at + len(device.split())] == device.split() for at in range(len(words))) or (
            " " not in device and any(word.split("-")[0] == device for word in words)
        ):
            return tera * 1e12
    return None
