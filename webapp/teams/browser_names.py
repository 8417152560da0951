"""Names of browsers and systems for people, from the User-Agent header that they send."""

from __future__ import annotations

import re

UNKNOWN = "Unknown program"
BROWSERS = (  # the first match counts: most browsers also name the browsers that they imitate
    ("Edge", r"\bEdg(?:e|A|iOS)?/"),
    ("Opera", r"\bOPR/"),
    ("Samsung Internet", r"\bSamsungBrowser/"),
    ("Firefox", r"\b(?:Firefox|FxiOS)/"),
    ("Chrome", r"\b(?:Chrome|CriOS|HeadlessChrome)/"),
    ("Safari", r"\bVersion/[\d.]+ .*\bSafari/"),
)
SYSTEMS = (
    ("iPhone", r"\biPhone\b"),
    ("iPad", r"\biPad\b"),
    ("Android", r"\bAndroid\b"),
    ("Windows", r"\bWindows\b"),
    ("ChromeOS", r"\bCrOS\b"),
    ("macOS", r"\b(?:Macintosh|Mac OS X)\b"),
    ("Linux", r"\bLinux\b"),
)
MAX_PROGRAM_LENGTH = 40


def client_name(user_agent: str) -> str:
    """Return a name such as “Firefox on Linux”, or the first word of another program's header without its version."""
    browser, system = _first(BROWSERS, user_agent), _first(SYSTEMS, user_agent)
    if not browser:
        words = user_agent.split("/", 1)[0].split()
        program = words[0] if words else ""
        browser = UNKNOWN if program in {"", "Mozilla", "Unspecified"} else program[:MAX_PROGRAM_LENGTH]
    return f"{browser} on {system}" if system else browser


def _first(names: tuple[tuple[str, str], ...], user_agent: str) -> str:
    return next((name for name, pattern in names if re.search(pattern, user_agent)), "")
