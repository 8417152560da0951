// @ts-check
/** Team TV: fetches the next moment and the lists again and again, and goes on when the site is back. */

import { need, setText } from "../ui/dom.js";

/** Milliseconds between two moments: the longest attempts take as long to play. */
const ROUND_MS = 30_000;
const MAX_SHOWN = 20;

const page = need(document, "[data-tv]");
/** Slugs of attempts, the latest last. @type {string[]} */
let shown = [];

function noteShown() {
  const slug = need(page, "[data-tv-moment]").dataset.tvMoment ?? "";
  shown = [...shown.filter((other) => other !== slug), slug].filter(Boolean).slice(-MAX_SHOWN);
}

async function next() {
  const query = new URLSearchParams(location.search);
  for (const slug of shown) query.append("shown", slug);
  const answer = await fetch(`${location.pathname}?${query}`, { headers: { "X-Fragment": "1" } }).catch(() => null);
  if (answer?.redirected) location.reload(); // the session has expired: to the log-in page
  setText(need(document, "[data-tv-connection]"), answer?.ok ? "" : "The site does not respond. Trying again …");
  if (!answer?.ok) return;
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const moment = need(parsed, "[data-tv-moment]");
  const current = need(page, "[data-tv-moment]");
  if (moment.dataset.tvMoment !== current.dataset.tvMoment) current.replaceWith(moment);
  need(page, "[data-tv-side]").replaceWith(need(parsed, "[data-tv-side]"));
  noteShown();
}

/** Keep the screen on, where the browser can. */
function stayAwake() {
  if (document.visibilityState === "visible") void navigator.wakeLock?.request("screen").catch(() => {});
}

noteShown();
stayAwake();
document.addEventListener("visibilitychange", stayAwake);
window.setInterval(() => void next(), ROUND_MS);
document.documentElement.classList.add("ready");
