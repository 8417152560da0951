// @ts-check
/**
 * Annotations of a trajectory: places comment threads next to their turns and reloads the panel after changes by others.
 * The forms work without JavaScript; unsaved text is never touched.
 */

import { LiveSocket } from "../live/socket.js";
import { html, need, setText, svg } from "../ui/dom.js";

/**
 * @typedef {{ajax: (verb: string, path: string, options: {target: string, swap: string}) => Promise<void>, process: (node: Element) => void}} Htmx
 */

const htmx = /** @type {Htmx} */ (/** @type {any} */ (window).htmx);
const panel = need(document, "[data-annotations]");
const form = /** @type {HTMLFormElement} */ (need(panel, "[data-draft]"));
const list = document.querySelector("[data-turns]");
let announced = 0; // the newest version that the server reported
let loading = false;

const state = () => need(document, "#annotation-state");
const version = () => Number(state().dataset.version);
const editing = () => document.querySelector("[data-editing]") !== null;

/** Add a comment button and the thread to every turn. */
function place() {
  if (!list) return;
  for (const item of list.querySelectorAll(":scope > [data-turn]")) {
    const turn = Number(item.getAttribute("data-turn"));
    const thread = state().querySelector(`[data-thread="${turn}"]`);
    if (thread) {
      item.querySelector(".thread")?.remove();
      item.append(thread);
    }
    const count = item.querySelectorAll(".thread .comment").length;
    const words = count ? `${count} comment${count === 1 ? "" : "s"}` : "Comment";
    let button = item.querySelector("[data-talk]");
    if (!button) {
      button = html("button", { type: "button", class: "turn-talk", "data-talk": turn }, [
        bubble(),
        html("span", {}, [words]),
      ]);
      item.querySelector(".turn-number")?.after(button);
    }
    const span = button.querySelector("span");
    if (span) setText(span, words);
    button.classList.toggle("some", count > 0);
    button.setAttribute("aria-label", count ? `${words} on turn ${turn + 1}: add one` : `Comment on turn ${turn + 1}`);
  }
  const left = state().querySelector(".thread");
  const some = document.querySelector(".turn .thread");
  const none = state().querySelector(".no-comments");
  if (none instanceof HTMLElement) none.hidden = left !== null || some !== null;
}

function bubble() {
  return svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, [svg("path", { d: "M2 3h12v8H7l-3 3v-3H2z" })]);
}

/** Remove the threads next to turns before the panel is replaced. */
function clear() {
  for (const thread of list?.querySelectorAll(".thread") ?? []) thread.remove();
}

/**
 * Load the panel, again and again until it has the version that the server announced.
 * One request at a time: htmx would queue the next for the element that this one replaces, and so lose its answer.
 */
async function refresh() {
  if (loading) return;
  loading = true;
  try {
    do {
      if (editing()) return; // an open edit would be lost; loaded when it ends
      const before = state();
      await htmx.ajax("GET", panel.dataset.annotations ?? "", { target: "#annotation-state", swap: "outerHTML" });
      if (state() === before) return; // the server is unavailable: loaded with the next event
    } while (version() < announced);
  } finally {
    loading = false;
  }
}

/** @param {number} turn */
function talk(turn) {
  const select = form.querySelector("select");
  if (select) select.value = String(turn + 1);
  const text = need(form, "textarea");
  text.scrollIntoView({ block: "center" });
  text.focus();
}

document.addEventListener("click", (event) => {
  const target = /** @type {Element} */ (event.target);
  const button = target.closest("[data-talk]");
  if (button) talk(Number(button.getAttribute("data-talk")));
  if (target.closest("[data-cancel-edit]")) {
    event.preventDefault();
    target.closest("[data-editing]")?.removeAttribute("data-editing");
    void refresh();
  }
});

let focus = "";
document.addEventListener("htmx:beforeSwap", (event) => {
  const swap = /** @type {CustomEvent<{target: Element, shouldSwap: boolean, xhr: XMLHttpRequest}>} */ (event).detail;
  if (swap.target.id !== "annotation-state" || !swap.shouldSwap) return;
  if (Number(/data-version="(\d+)"/.exec(swap.xhr.responseText)?.[1]) < version()) {
    swap.shouldSwap = false; // overtaken by the answer to a later request
    return;
  }
  focus = document.activeElement?.id ?? "";
  clear();
});
document.addEventListener("htmx:afterSettle", () => {
  place();
  const focused = focus && document.getElementById(focus);
  if (focused && document.activeElement === document.body) focused.focus();
  focus = "";
  if (version() < announced) void refresh();
});
document.addEventListener("annotations:comment", () => form.reset());
document.addEventListener("annotations:tag", () => {
  focus = "tag";
});

if (list) new MutationObserver(place).observe(list, { childList: true });
place();
const linked = location.hash.startsWith("#comment-") ? document.getElementById(location.hash.slice(1)) : null;
linked?.scrollIntoView({ block: "center" });

new LiveSocket(panel.dataset.socket ?? "", {
  cursor: () => `after=${version()}`,
  onFrame: (frame) => {
    if (frame.type !== "changed") return;
    announced = Math.max(announced, Number(frame.version));
    if (announced <= version()) return;
    const before = Number(state().dataset.comments);
    void refresh().then(() => {
      const now = Number(state().dataset.comments);
      if (now !== before)
        setText(need(panel, "[data-annotations-words]"), `${now} comment${now === 1 ? "" : "s"} now.`);
    });
  },
  onStatus: () => {},
});
