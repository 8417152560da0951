"""Screenshots as WebP files of limited size."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from PIL import Image

MAX_BYTES = 290_000
QUALITIES = (90, 84, 78, 70, 60, 50)
SHRINK = 0.85
"""Factor of the width if even the lowest quality is too large."""


def save(png: bytes, path: Path, limit: int = MAX_BYTES) -> int:
    """Write a screenshot in the highest quality that stays below the limit. Returns the bytes of the file."""
    image = Image.open(BytesIO(png)).convert("RGB")
    while True:
        for quality in QUALITIES:
            file = BytesIO()
            image.save(file, "WEBP", quality=quality, method=6)
            if file.tell() <= limit:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.getvalue())
                return file.tell()
        image = image.resize((max(1, round(image.width * SHRINK)), max(1, round(image.height * SHRINK))))
