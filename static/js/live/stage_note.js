// @ts-check
/** Line above the stage: whether its attempt is live, a replay of the reel, or chosen, and why the reel shows it. */

import { need, setText } from "../ui/dom.js";
import { evaluatedWhen } from "../ui/formatting.js";

/** @typedef {import("../types.js").Highlight} Highlight */

/**
 * @param {{reel: {highlight: Highlight, number: number, count: number}|null, over: boolean, pinned: boolean, running: boolean}}
 *   stage over: the attempt has ended; pinned: the user chose it
 */
export function showStageNote({ reel, over, pinned, running }) {
  const note = need(document, "[data-stage-note]");
  const kind = reel ? "replay" : pinned ? "pinned" : running && !over ? "live" : "last";
  note.dataset.kind = kind;
  setText(need(note, "[data-badge]"), { replay: "Replay", pinned: "Pinned", live: "Live", last: "Finished" }[kind]);
  const link = need(note, "[data-reel-link]");
  link.hidden = !reel;
  if (reel && link.getAttribute("href") !== `/t/${reel.highlight.slug}`)
    link.setAttribute("href", `/t/${reel.highlight.slug}`);
  setText(link, reel ? reel.highlight.caption : "");
  setText(need(note, "[data-reel-words]"), reel ? words(reel) : "");
  const next = need(note, "[data-reel-next]");
  next.hidden = !reel || reel.count < 2;
}

/** @param {{highlight: Highlight, number: number, count: number}} reel */
function words({ highlight, number, count }) {
  const origin =
    highlight.split === "eval"
      ? `evaluation ${evaluatedWhen(highlight.iteration)}`
      : `iteration ${highlight.iteration}`;
  return `${origin} · ${number} of ${count}`;
}
