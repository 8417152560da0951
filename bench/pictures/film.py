"""The recorded Echo Trap as an animated picture: frames of its page, in both themes."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from bench.pictures.screenshots import THEMES

NAME = "echo-trap"
PATH = "/embed/echo-trap"
SIZE = (1040, 560)
FRAMES = 48
FRAME_MS, LAST_MS = 250, 3000
MAX_BYTES = 740_000
"""Of one file: README and documentation show one of two, by theme."""
COLOURS = (0, 128, 64)
"""Numbers of colours to which frames are reduced, in turn until the file is small enough; 0: as they are. Frames of a
page are flat: without loss they are smaller than with it."""
SET = """([slider, value]) => {
  slider.value = value;
  slider.dispatchEvent(new Event("input"));
}"""


def film_replay(browser: Any, url: str, out: Path) -> None:
    """Write the animation of the recording in each theme."""
    for theme in THEMES:
        page = browser.new_page(
            base_url=url,
            viewport={"width": SIZE[0], "height": SIZE[1]},
            color_scheme=theme,
            reduced_motion="reduce",
            bypass_csp=True,
        )
        page.goto(f"{PATH}?theme={theme}")
        page.locator(".ready [data-slider]").wait_for()
        page.add_style_tag(content=".replay-jumps, .embed-foot { display: none } html { overflow: hidden }")
        slider = page.locator("[data-slider]").element_handle()
        last = int(slider.get_attribute("max"))
        frames = []
        for number in range(FRAMES):
            page.evaluate(SET, [slider, str(1 + round(number * (last - 1) / (FRAMES - 1)))])
            frames.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
        page.close()
        file = out / f"{NAME}-{theme}.webp"
        print(f"{file.name}: {save_film(frames, file) / 1000:.0f} kB")


def save_film(frames: list[Image.Image], path: Path, limit: int = MAX_BYTES) -> int:
    """Write the frames without loss, with as many colours as the limit permits. Returns the bytes of the file.

    Raises ValueError if no number of colours does.
    """
    durations = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    for colours in COLOURS:
        first, *others = _reduced(frames, colours) if colours else frames
        file = BytesIO()
        first.save(
            file, "WEBP", save_all=True, append_images=others, duration=durations, loop=0, lossless=True, method=3
        )
        if file.tell() <= limit:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.getvalue())
            return file.tell()
    raise ValueError(f"{path.name} has more than {limit:,} bytes with {COLOURS[-1]} colours")


def _reduced(frames: list[Image.Image], colours: int) -> list[Image.Image]:
    """The frames with the colours of the one in the middle."""
    palette = frames[len(frames) // 2].quantize(colours, dither=Image.Dither.NONE)
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB") for frame in frames]
