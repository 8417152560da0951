// @ts-check
/** Search field over the worlds of an adapter. */

import { setText } from "./dom.js";

for (const list of document.querySelectorAll("[data-worlds]")) {
  const input = list.querySelector("[data-world-search]");
  const status = list.querySelector("[data-worlds-found]");
  const rows = [...list.querySelectorAll("[data-world]")];
  input?.addEventListener("input", () => {
    if (!(input instanceof HTMLInputElement)) return;
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of rows) {
      const text = row.getAttribute("data-world") ?? "";
      const fits = words.every((word) => text.includes(word));
      if (row instanceof HTMLElement) row.hidden = !fits;
      found += Number(fits);
    }
    if (!status) return;
    if (!words.length) setText(status, "");
    else setText(status, found ? `${found} of ${rows.length} worlds match.` : "No world matches. Search for another word.");
  });
}
