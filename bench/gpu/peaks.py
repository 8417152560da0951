"""Peak speeds of GPUs, to compute the share of them that is reached (MFU)."""

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


def find_peak(name: str) -> float | None:
    """Return the peak FLOP/s of a device by name; None if it is not in the table."""
    name_parts = name.split()
    for device, tera in PEAKS.items():
        if any(name_parts[at : at + len(device.split())] == device.split() for at in range(len(name_parts))) or (
            " " not in device and any(word.split("-")[0] == device for word in name_parts)
        ):
            return tera * 1e12
    return None
