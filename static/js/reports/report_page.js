// @ts-check
/** A report: read-outs of its charts, and embeds that follow the runs that go on. */

import "../ui/copy_buttons.js";
import { readings, showBlocks } from "./report_blocks.js";

const REFRESH_MS = 15_000;
const body = document.querySelector("[data-report-body]");

/** @param {HTMLElement} root @param {string} address */
async function refresh(root, address) {
  if (document.visibilityState !== "visible") return;
  try {
    const response = await fetch(address);
    if (response.ok && !response.redirected) showBlocks(root, await response.text());
  } catch {
    // the next attempt follows
  }
}

if (body instanceof HTMLElement) {
  readings(body);
  const address = body.dataset.refresh;
  if (address) window.setInterval(() => void refresh(body, address), REFRESH_MS);
}
