// @ts-check
/** The panel of a sick run: loaded again whenever its faults change. */

const place = document.querySelector("[data-faults]");

/** @param {HTMLElement} place */
async function load(place) {
  const answer = await fetch(place.dataset.faults ?? "", { headers: { "X-Fragment": "1" } }).catch(() => null);
  if (answer?.status !== 200) return; // offline: the next change, or a reload, shows it
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  place.replaceChildren(...parsed.body.childNodes);
}

if (place instanceof HTMLElement) {
  document.addEventListener("runevents", (event) => {
    const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event).detail;
    const shown = place.childElementCount > 0;
    if (events.some(({ type, judged }) => type === "faults" || (judged && (shown || judged.faults.length > 0))))
      void load(place);
  });
  document.addEventListener("runreloaded", () => void load(place));
}
