// @ts-check
/**
 * Player next to the list of trajectories on wide screens: shows the row that has the focus or was clicked. The link of
 * a row opens the whole page.
 */

import { fetchJson } from "../ui/fetch_json.js";
import { need, setText } from "../ui/dom.js";

/** @typedef {import("../player/player.js").Player} Player */
/** @typedef {import("../types.js").Trajectory} Trajectory */

/** Where static/css/explorer.css has a place for it. */
const wide = window.matchMedia("(min-width: 1280px)");
/** Milliseconds without a further step until the attempt is fetched. */
const PAUSE = 120;
const pane = need(document, "[data-attempt-pane]");
/** @type {Player|null} */ let player = null;
/** Address of the attempt that is shown or about to be. */
let selected = "";
let timer = 0;

/** @returns {HTMLAnchorElement[]} */
const rows = () => [.../** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-row]"))];

/** @param {HTMLAnchorElement} link */
function select(link) {
  if (!wide.matches) return;
  for (const row of rows()) row.closest("tr")?.toggleAttribute("data-selected", row === link);
  if (selected === link.pathname) return;
  selected = link.pathname;
  window.clearTimeout(timer);
  timer = window.setTimeout(() => void load(link), PAUSE);
}

/** @param {HTMLAnchorElement} link */
async function load(link) {
  const [{ Player }, data] = await Promise.all([import("../player/player.js"), fetchJson(`${link.pathname}.json`)]);
  if (selected !== link.pathname) return; // another row was selected meanwhile
  if (!data) {
    selected = ""; // offline, or the run played the iteration again: the next selection fetches it
    return;
  }
  player ??= new Player(need(pane, "[data-player]"));
  const open = /** @type {HTMLAnchorElement} */ (need(pane, "[data-open]"));
  open.href = link.href;
  setText(open, link.title);
  setText(need(pane, "[data-outcome]"), link.closest("tr")?.querySelector(".of-outcome")?.getAttribute("title") ?? "");
  reveal(true);
  pane.dataset.shown = "";
  player.load(/** @type {Trajectory} */ (data));
}

/** After the list has changed: the selected row if it is still there, else the first one. */
export function showInPane() {
  const links = rows();
  const link = links.find(({ pathname }) => pathname === selected) ?? links[0];
  if (link) select(link);
  else reveal(false);
}

/** The page already has the place for the pane where it has rows: nothing moves while it loads. @param {boolean} shown */
function reveal(shown) {
  pane.hidden = !shown;
  pane.parentElement?.classList.toggle("split", shown);
}

/** A key for the player that is shown. @param {string} key */
export function playerKey(key) {
  const control = document.activeElement?.closest("input, select, textarea, button, summary");
  if (control && !pane.contains(control)) return false; // the key is the control's own: End on a slider of the filters
  return wide.matches && !pane.hidden && Boolean(player?.key(key));
}

document.addEventListener("focusin", ({ target }) => {
  if (target instanceof HTMLAnchorElement && target.matches("[data-row]")) select(target);
});
document.addEventListener("click", ({ target }) => {
  const row = target instanceof Element ? target.closest(".trajectories tbody tr") : null;
  const link = row?.querySelector("a[data-row]");
  if (wide.matches && link instanceof HTMLAnchorElement) link.focus({ preventScroll: true });
});
wide.addEventListener("change", showInPane);
