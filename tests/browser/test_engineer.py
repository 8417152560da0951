"""Journey of an engineer with a custom environment: launch, read the failure, fix it, download the policy."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests import migrated_database, running_product
from tests.browser.conftest import sign_in
from tests.browser.launching import SMALL
from tests.envs.plugins import install_example
from tests.running_product import LiveStack
from trainer.paths import POCKET_CHECKPOINT

pytestmark = pytest.mark.browser

STEP = """    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
"""
SLIP = """        raise RuntimeError("the door has no hinges")
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The installed file of docs/examples/key-door."""
    return install_example(tmp_path) / "key_door.py"


@pytest.fixture
def stack(environment: Path, tmp_path: Path) -> Iterator[LiveStack]:
    """A running Echoscope beside which that package is installed."""
    migrated_database.prepare(tmp_path / "home")
    stack = running_product.start(tmp_path / "home", extra={"PYTHONPATH": str(environment.parent)})
    yield stack
    running_product.stop(stack)


def test_a_custom_environment_fails_with_a_reason_is_fixed_and_its_policy_downloaded(
    environment: Path, stack: LiveStack, browser: Browser, tmp_path: Path
) -> None:
    sound = environment.read_text()
    assert sound.count(STEP) == 1
    environment.write_text(sound.replace(STEP, STEP + SLIP))
    context = browser.new_context(base_url=stack.url)
    page = context.new_page()
    sign_in(page, stack)

    # launch it
    page.goto("/runs/new")
    page.get_by_role("button", name="Open all").click()
    page.locator('[name="environment.name"]').select_option("KeyDoor")
    expect(page.locator("#environment-settings")).to_contain_text("lava", ignore_case=True)
    for name, value in (SMALL | {"name": "Keys", "policy.model": str(POCKET_CHECKPOINT)}).items():
        page.locator(f'[name="{name}"]').fill(value)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/(?!new)\w+/$"))

    # see why it fails
    state = page.locator(".state").first
    expect(state).to_have_attribute("data-state", "failed")
    expect(page.get_by_role("alert").first).to_contain_text("the door has no hinges")

    # fix it, and resume
    environment.write_text(sound)
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_attribute("data-state", "finished")
    expect(page.locator("[data-stage] .board svg")).to_be_visible()

    # download the policy
    page.get_by_role("link", name="Configuration").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="after 3").click()
    with tarfile.open(saved.value.path()) as archive:
        archive.extractall(tmp_path / "taken", filter="data")
    folder = next((tmp_path / "taken").rglob("config.json")).parent
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "Go."}], return_tensors="pt", return_dict=True)
    assert model.generate(**ids, max_new_tokens=4, do_sample=False).shape[1] > ids["input_ids"].shape[1]
    context.close()
