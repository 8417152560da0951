// @ts-check
/**
 * Claims of a thought: its statements about the state, underlined where they are false; pointing at one, or focusing
 * it, lights its cells on the board of the state that the thought is about.
 */

import { html } from "../ui/dom.js";

/** @typedef {import("../types.js").Claim} Claim */
/** @typedef {import("../types.js").Turn} Turn */

/**
 * Cut a thought at its claims.
 * @param {string} thought
 * @param {Claim[]} claims in order; overlapping ones and those beyond the text are left out
 * @returns {Array<{text: string, claim: number}>} in order; claim: index of the claim, −1 between claims
 */
export function thoughtParts(thought, claims) {
  const characters = [...thought]; // claims count code points, strings count UTF-16 units
  const parts = [];
  let end = 0;
  for (const [index, claim] of claims.entries()) {
    if (claim.start < end || claim.end > characters.length || claim.end <= claim.start) continue;
    if (claim.start > end) parts.push({ text: characters.slice(end, claim.start).join(""), claim: -1 });
    parts.push({ text: characters.slice(claim.start, claim.end).join(""), claim: index });
    end = claim.end;
  }
  if (end < characters.length) parts.push({ text: characters.slice(end).join(""), claim: -1 });
  return parts;
}

/**
 * What a claim's tooltip says.
 * @param {Claim} claim
 */
export function claimText(claim) {
  return claim.true ? "True." : `False: ${claim.actual || "the state says otherwise"}.`;
}

/**
 * Number of true claims of a turn, in words; empty without claims.
 * @param {Turn} turn
 */
export function claimFacts(turn) {
  const all = turn.claims?.length ?? 0;
  const right = turn.claims?.filter((claim) => claim.true).length ?? 0;
  return all ? `${right} of ${all} ${all === 1 ? "claim" : "claims"} true` : "";
}

/**
 * The thought of a turn, with a link for each claim to the turn's start.
 * @param {Turn} turn
 * @returns {Array<string|HTMLElement>}
 */
export function renderThought(turn) {
  return thoughtParts(turn.thought, turn.claims ?? []).map(({ text, claim: index }) => {
    const claim = turn.claims?.[index];
    if (!claim) return text;
    const words = claimText(claim);
    return html(
      "a",
      {
        class: `claim ${claim.true ? "true" : "false"}`,
        href: `?turn=${turn.turn + 1}`,
        "data-step": "-1",
        "data-claim": index,
        "data-tip": words,
        "aria-label": `${text} – ${words}`,
      },
      [text],
    );
  });
}

/**
 * Report the claim that the pointer or the focus is on.
 * @param {HTMLElement} list the turns
 * @param {(turn: number, claim: number) => void} light claim −1: none any more
 */
export function watchClaims(list, light) {
  const report = (/** @type {Event} */ event, /** @type {boolean} */ on) => {
    const node = event.target instanceof Element ? event.target.closest("[data-claim]") : null;
    const turn = node?.closest("[data-turn]")?.getAttribute("data-turn");
    if (node && turn) light(Number(turn), on ? Number(node.getAttribute("data-claim")) : -1);
  };
  list.addEventListener("pointerover", (event) => report(event, true));
  list.addEventListener("pointerout", (event) => report(event, false));
  list.addEventListener("focusin", (event) => report(event, true));
  list.addEventListener("focusout", (event) => report(event, false));
}
