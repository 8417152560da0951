// @ts-check
/** Search field over the variants of an adapter. */

import { setText } from "./dom.js";

for (const list of document.querySelectorAll("[data-variants]")) {
  const input = list.querySelector("[data-variant-search]");
  const status = list.querySelector("[data-variants-found]");
  const rows = [...list.querySelectorAll("[data-variant]")];
  input?.addEventListener("input", () => {
    if (!(input instanceof HTMLInputElement)) return;
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of rows) {
      const text = row.getAttribute("data-variant") ?? "";
      const fits = words.every((word) => text.includes(word));
      if (row instanceof HTMLElement) row.hidden = !fits;
      found += Number(fits);
    }
    if (!status) return;
    if (!words.length) setText(status, "");
    else
      setText(
        status,
        found ? `${found} of ${rows.length} variants match.` : "No variant matches. Search for another word.",
      );
  });
}
