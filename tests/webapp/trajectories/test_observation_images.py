"""Images of observations in previews and animations: shown for states that are text alone, and left out if unusable."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image

from tests.webapp.observed_images import image_file, observe
from tests.webapp.page_requests import Visitors, play, who
from trainer.journal.observation_images import image_path
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.board import draw_observation
from webapp.trajectories.render.drawing_queue import DRAWINGS

__all__ = ["who"]
TEAL = (0, 128, 128)
TEXT = {"kind": "text", "text": "You see a square."}


@pytest.fixture
def trajectory(run: Run) -> Trajectory:
    """A trajectory whose states are texts."""
    play(run)
    played = Trajectory.objects.filter(run=run).select_related("group").order_by("-turn_count", "pk")[0]
    played.group.board = TEXT
    played.group.save(update_fields=["board"])
    for turn in played.turns.all():
        for record in turn.event["actions"]:
            record.pop("board", None)
        turn.save(update_fields=["event"])
    return played


def teal(picture: Image.Image) -> float:
    """Share of the pixels that have the colour of the image, or nearly."""
    pixels = picture.convert("RGB").get_flattened_data()
    near = [all(abs(a - b) < 12 for a, b in zip(pixel, TEAL, strict=True)) for pixel in pixels]
    return sum(near) / len(near)


def preview(who: Visitors, trajectory: Trajectory) -> Image.Image:
    response = who.owner.get(f"/t/{trajectory.slug}/picture.png?turn=1&action=0")
    assert response.status_code == 200
    return Image.open(BytesIO(response.content))


def test_a_preview_shows_the_image_in_the_place_of_the_text(trajectory: Trajectory, who: Visitors) -> None:
    assert teal(preview(who, trajectory)) == 0
    DRAWINGS.files.clear()
    observe(trajectory)
    assert teal(preview(who, trajectory)) > 0.1


def test_a_board_is_drawn_although_there_is_an_image(trajectory: Trajectory, who: Visitors) -> None:
    trajectory.group.board = {"kind": "grid", "theme": "frozen_lake", "rows": ["@ ", " G"]}
    trajectory.group.save(update_fields=["board"])
    observe(trajectory)
    assert teal(preview(who, trajectory)) == 0


@pytest.mark.parametrize("damage", ["absent", "truncated", "another format"])
def test_an_unusable_image_leaves_the_text(trajectory: Trajectory, who: Visitors, damage: str) -> None:
    image = observe(trajectory)
    file = trajectory.run.folder / image_path(image.sha256, image.media_type)
    content = {"truncated": file.read_bytes()[:60], "another format": image_file(media_type="image/jpeg")}
    file.unlink()
    if damage in content:
        file.write_bytes(content[damage])
    assert teal(preview(who, trajectory)) == 0


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_an_animation_shows_the_image_of_its_turn(trajectory: Trajectory, who: Visitors, kind: str) -> None:
    observe(trajectory)
    response = who.owner.get(f"/t/{trajectory.slug}/export/{kind}")
    assert response.status_code == 200
    film = Image.open(BytesIO(response.content))
    film.seek(0)
    assert teal(film) > 0.1
    film.seek(film.n_frames - 1)
    assert teal(film) == 0 or trajectory.turn_count == 1, "the last turn has no image"


@pytest.mark.parametrize(("size", "shown"), [((64, 48), (512, 384)), ((640, 320), (550, 275)), ((20, 300), (37, 550))])
def test_an_image_keeps_its_proportions(size: tuple[int, int], shown: tuple[int, int]) -> None:
    box = draw_observation(Image.new("RGB", size, "teal"), 550)
    red_free = box.point(lambda value: 255 if value < 20 else 0).getchannel("R").getbbox()
    assert red_free is not None
    assert (red_free[2] - red_free[0], red_free[3] - red_free[1]) == shown


def test_transparent_images_show_the_panel_behind_them(trajectory: Trajectory, who: Visitors) -> None:
    file = BytesIO()
    layer = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    layer.paste((0, 128, 128, 255), (0, 0, 64, 32))
    layer.save(file, "PNG")
    observe(trajectory, file.getvalue())
    picture = preview(who, trajectory)
    assert teal(picture) > 0.05
    black = [pixel for pixel in picture.convert("RGB").get_flattened_data() if max(pixel) < 8]
    assert len(black) == 0
