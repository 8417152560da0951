"""Calls of tools as text: scripts and templates write the same."""

from __future__ import annotations

from typing import Any

import pytest
from django.template.loader import render_to_string

from tests.webapp.javascript import evaluate
from webapp.core.formatting import call_text

CALLS: list[tuple[dict[str, Any], str]] = [
    ({"tool": "calculator", "arguments": {"expression": "6 * 7"}}, "calculator(6 * 7)"),
    ({"tool": "python", "arguments": {"code": "x = 1\nprint(x)"}}, "python(x = 1\nprint(x))"),
    ({"tool": "price", "arguments": {"item": "lämp", "count": 2}}, 'price(item="lämp", count=2)'),
    (
        {"tool": "order", "arguments": {"items": [1, {"a": None}], "gift": True}},
        'order(items=[1,{"a":null}], gift=true)',
    ),
    ({"tool": "wait", "arguments": {"seconds": 3}}, "wait(seconds=3)"),
    ({"tool": "now"}, "now()"),
    ({"tool": "", "result": "Error: the call is not valid JSON", "failed": True}, "unreadable call"),
]


@pytest.mark.parametrize(("call", "text"), CALLS)
def test_script_and_templates_write_a_call_alike(call: dict[str, Any], text: str) -> None:
    assert call_text(call) == text
    assert evaluate("ui/formatting.js", "callText(data)", call) == text


def turn(*calls: dict[str, Any]) -> dict[str, Any]:
    actions = [{"text": "x", "status": "executed", "name": "x", "call": call} for call in calls]
    return {"turn": 0, "reward": 0, "state": "?", "thought": "so", "answer": "x", "tokens": 3, "actions": actions}


def test_without_scripts_a_turn_shows_calls_with_results_and_marks_errors() -> None:
    good = {"tool": "calculator", "arguments": {"expression": "6 < 7"}, "result": "<b>42</b>"}
    failed = {"tool": "calculator", "result": "Error: a number is missing", "failed": True}
    page = render_to_string("trajectories/_turn.html", {"turn": turn(good, failed)})
    assert '<code class="call-text">calculator(6 &lt; 7)</code>' in page
    assert '<pre class="call-result">&lt;b&gt;42&lt;/b&gt;</pre>' in page
    assert page.count('<li class="call failed">') == 1
    assert '<span class="mark">failed</span>' in page
    assert "calls" not in render_to_string("trajectories/_turn.html", {"turn": turn()})
