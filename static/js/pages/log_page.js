// @ts-check
/** Log tab: appends new lines and output while the run works; follows the end unless scrolled up. */

import { html, need, visibleText } from "../ui/dom.js";
import { fetchJson } from "../ui/fetch_json.js";

/** @typedef {{seq: number, level: string, message: string, time: string}} Line */
/** @typedef {{lines: Line[], output: {text: string, offset: number, skipped: boolean}, active: boolean}} Answer */

const ACTIVE_INTERVAL = 2_000;
const IDLE_INTERVAL = 15_000;
const MAX_LINES = 2_000;
const MAX_OUTPUT = 256 * 1024;
const NEAR_END = 40;

const root = need(document, "[data-log]");
const list = need(root, "[data-lines]");
const output = need(root, "[data-output]");
const toEnd = need(root, "[data-to-end]");
let after = Number(root.dataset.after);
let offset = Number(root.dataset.offset);

/** @param {HTMLElement} box */
const isAtEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;

/** @param {HTMLElement} box */
function scrollToEnd(box) {
  box.scrollTop = box.scrollHeight;
}

/** Change a box, and keep its end in sight if it was. @param {HTMLElement} box @param {() => void} change */
function following(box, change) {
  const follows = isAtEnd(box);
  change();
  if (follows) scrollToEnd(box);
  if (box === list) toEnd.hidden = isAtEnd(list);
}

/** @param {Line} line */
function item({ level, message, time }) {
  const clock = new Date(time).toISOString().slice(11, 19); // UTC, as the server prints it
  return html("li", { "data-level": level }, [
    html("time", { datetime: time }, [clock]),
    " ",
    ...(level === "info" ? [] : [html("b", {}, [level])]),
    html("span", {}, [message]),
  ]);
}

/** Fetch what came since the last time, and show it. @returns {Promise<Answer|null>} */
async function update() {
  const asked = { after, offset };
  const answer = /** @type {Answer|null} */ (await fetchJson(`${root.dataset.log}?after=${after}&offset=${offset}`));
  if (answer && asked.after === after && asked.offset === offset) show(answer); // otherwise another one was faster
  return answer;
}

/** @param {Answer} answer */
function show({ lines, output: added }) {
  if (lines.length) {
    following(list, () => {
      list.append(...lines.map(item));
      while (list.childElementCount > MAX_LINES) list.firstElementChild?.remove();
    });
    after = lines[lines.length - 1].seq;
    need(root, "[data-none]").hidden = true;
  }
  if (added.text) {
    following(output, () => {
      const text = (added.skipped || added.offset < offset ? "" : output.textContent) + visibleText(added.text);
      output.textContent = text.slice(-MAX_OUTPUT);
    });
    need(root, "[data-no-output]").hidden = true;
  }
  offset = added.offset;
}

async function poll() {
  const answer = document.hidden ? null : await update();
  window.setTimeout(poll, answer?.active ? ACTIVE_INTERVAL : IDLE_INTERVAL);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) void update();
});
need(root, "[data-levels]").addEventListener("change", (event) => {
  if (!(event.target instanceof HTMLInputElement)) return;
  list.dataset.show = event.target.value;
  scrollToEnd(list);
});
list.addEventListener("scroll", () => {
  toEnd.hidden = isAtEnd(list);
});
toEnd.addEventListener("click", () => scrollToEnd(list));
scrollToEnd(list);
scrollToEnd(output);
void poll();
