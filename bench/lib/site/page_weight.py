"""Weight of a first page visit: every file named in the HTML, and by those files in turn."""

from __future__ import annotations

import gzip
import posixpath
import re

LINKED = re.compile(rb'<(?:link|script|img)\b[^>]*?\b(?:href|src)="(/static/[^"?]+)')
IMPORTED = re.compile(rb"""\b(?:import|from)\s*\(?\s*["']([^"']+)["']""")
STYLED = re.compile(rb"""(?:url\(|@import\s+)["']?([^"')]+)""")
FONTS = "fonts"
WITHOUT_FONTS = "all but the fonts"
KINDS = {".html": "HTML", ".css": "CSS", ".js": "JavaScript", ".svg": "pictures", ".woff2": FONTS}


def first_visit(html: bytes) -> dict[str, bytes]:
    """Return the page and every site file it loads, by path."""
    loaded = {"page.html": html}
    waiting = [path.decode() for path in LINKED.findall(html)]
    while waiting:
        path = waiting.pop()
        if path in loaded:
            continue
        loaded[path] = data = _read(path)
        pattern = IMPORTED if path.endswith(".js") else STYLED if path.endswith(".css") else None
        for name in pattern.findall(data) if pattern else ():
            text = name.decode()
            if text.startswith((".", "/")):
                waiting.append(posixpath.normpath(posixpath.join(posixpath.dirname(path), text)))
    return loaded


def _read(path: str) -> bytes:
    from pathlib import Path

    from django.contrib.staticfiles import finders

    located = finders.find(path.removeprefix("/static/"))
    if not isinstance(located, str):
        raise FileNotFoundError(f"the page names {path}, which is not among the site's static files")
    return Path(located).read_bytes()


def by_kind(parts: dict[str, bytes]) -> dict[str, tuple[int, int]]:
    """Return plain and compressed bytes by kind, with uPlot and htmx separate, and of all kinds but the fonts."""
    sums: dict[str, tuple[int, int]] = {}
    for path, data in parts.items():
        ending = posixpath.splitext(path)[1]
        library = next((name for name in ("uplot", "htmx") if name in path.lower()), "")
        kind = {"uplot": "uPlot", "htmx": "htmx"}.get(library) or KINDS.get(ending, ending)
        for name in (kind, WITHOUT_FONTS) if kind != FONTS else (kind,):
            plain, packed = sums.pop(name, (0, 0)) if name == WITHOUT_FONTS else sums.get(name, (0, 0))
            sums[name] = (plain + len(data), packed + len(gzip.compress(data)))
    return sums
