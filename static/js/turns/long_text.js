// @ts-check
/** Long thoughts and responses: their first lines, with a button for the whole text. */

import { html, setText } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/** Lines of a folded text, as in static/css/player.css. */
const LINES = 12;
/** Fewer hidden lines than these are not worth a fold. */
const LEAST_HIDDEN = 3;
const TEXTS = ".thought, .response-text";

export class LongTexts {
  /**
   * @param {HTMLElement} list the turns; items may be added and removed
   * @param {(text: Element) => boolean} [isWanted] whether a text is shown whole from the start
   */
  constructor(list, isWanted = () => false) {
    this.list = list;
    this.isWanted = isWanted;
    /** @type {boolean|null} whether the reader last chose whole texts; null: no choice yet */ this.whole = null;
    this.sizes = new ResizeObserver((entries) =>
      entries.forEach(({ target }) => this.#fold(/** @type {HTMLElement} */ (target))),
    );
    list.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-whole-text]") : null;
      const text = button?.previousElementSibling;
      if (!(text instanceof HTMLElement)) return;
      this.whole = text.classList.contains("folded");
      this.#set(text, this.whole);
    });
    list.addEventListener("focusin", ({ target }) => {
      // a claim in the hidden part
      const text = target instanceof HTMLElement ? target.closest(".folded") : null;
      if (!text || !(target instanceof HTMLElement)) return;
      text.scrollTop = 0;
      if (target.offsetTop + target.offsetHeight > text.clientHeight)
        this.#set(/** @type {HTMLElement} */ (text), true);
    });
    for (const kind of ["pointerover", "focusin"]) list.addEventListener(kind, ({ target }) => placeTip(target));
  }

  /** Fold the texts of a turn where they are long. @param {HTMLElement} item */
  watch(item) {
    for (const text of item.querySelectorAll(TEXTS)) this.sizes.observe(text);
  }

  /** Show the texts of the turn that the reader has stepped to as chosen before. @param {Element} item */
  apply(item) {
    const { whole } = this;
    if (whole === null) return;
    for (const button of item.querySelectorAll("[data-whole-text]")) {
      const text = button.previousElementSibling;
      if (text instanceof HTMLElement) this.#set(text, whole || this.isWanted(text));
    }
  }

  /** Forget texts that are no longer shown. */
  clear() {
    this.sizes.disconnect();
  }

  /** @param {HTMLElement} text */
  #fold(text) {
    if (!text.clientWidth) return; // of a hidden turn
    const line = Number.parseFloat(getComputedStyle(text).lineHeight);
    const long = text.scrollHeight >= (LINES + LEAST_HIDDEN) * line;
    const button = text.nextElementSibling?.matches("[data-whole-text]") ? text.nextElementSibling : null;
    if (!long) {
      button?.remove();
      text.classList.remove("folded");
    } else if (!button) {
      text.after(html("button", { class: "whole-text", type: "button", "data-whole-text": true }));
      this.#set(text, this.isWanted(text) || (this.whole ?? false));
    }
  }

  /** @param {HTMLElement} text @param {boolean} whole */
  #set(text, whole) {
    const button = text.nextElementSibling;
    if (!button) return;
    text.classList.toggle("folded", !whole);
    button.setAttribute("aria-expanded", String(whole));
    setText(button, whole ? "Show less" : `Show all ${plural(text.textContent?.length ?? 0, "character")}`);
  }
}

/** Show the tooltip of a claim above its line where a fold would cut it off below. @param {EventTarget|null} target */
function placeTip(target) {
  const claim = target instanceof Element ? target.closest(".claim") : null;
  const text = claim?.closest(".thought");
  if (!(claim instanceof HTMLElement) || !text) return;
  claim.classList.toggle("tip-above", text.classList.contains("folded") && claim.offsetTop > text.clientHeight / 2);
}
