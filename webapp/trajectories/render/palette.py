"""The colours of pictures: those of static/css/base.css in the light theme."""

INK = "#1d2024"
LIGHT = {
    "bg": "#f6f6f3", "panel": "#ffffff", "raised": "#fbfbf9", "soft": "#5f6670", "line": "#e2e2dc",
    "line_strong": "#898f98", "accent": "#2f5fd0", "accent_wash": "#e9effc", "good": "#23784a", "good_wash": "#e3f3e9",
    "bad": "#b93c31", "bad_wash": "#fbe9e6", "warn": "#96600a", "warn_wash": "#fbf1dc", "wall": "#454b54",
    "wall_edge": "#3d434b", "floor": "#eceae3", "floor_alt": "#e4e2da", "target": "#cf5a2b", "box": "#b98a4b",
    "box_edge": "#85602f", "box_done": "#3a9663", "box_done_edge": "#20693f", "ice": "#dcebf5", "ice_alt": "#d0e3f0",
    "hole": "#2b3f52", "goal": "#2d8a55",
}  # fmt: skip
