// @ts-check
/**
 * Token view of a player: each response as tokens, shaded by a token statistic, with details by hover and keyboard.
 * Token data is fetched when the view is first switched on.
 */

import { html, setText } from "../ui/dom.js";
import {
  END,
  SILENT,
  TITLES,
  describeToken,
  maxAdvantage,
  legendEntries,
  shade,
  silentName,
  visibleText,
} from "./token_legend.js";

/** @typedef {import("../types.js").Turn} Turn */
/** @typedef {import("../types.js").Token} Token */
/** @typedef {import("../types.js").TokenTurn} TokenTurn */
/** @typedef {import("./token_legend.js").Measure} Measure */

const HELP = "Point at a token, or go to it with Tab and the arrow keys, to read its numbers.";

export class TokenView {
  /**
   * @param {HTMLElement} root the player
   * @param {HTMLElement} list its turns
   */
  constructor(root, list) {
    this.root = root;
    this.list = list;
    this.toggle = root.querySelector("[data-token-view]");
    this.toolbar = root.querySelector("[data-token-tools]");
    /** @type {Turn[]} */ this.turns = [];
    /** @type {Map<number, Token[]>} */ this.tokens = new Map();
    /** @type {"no"|"loading"|"yes"|"none"} */ this.loaded = "no";
    this.most = 0;
    if (this.toggle instanceof HTMLInputElement && this.toolbar) this.#listen(this.toggle);
  }

  /** Whether the player has a token view. */
  get offered() {
    return this.toggle instanceof HTMLInputElement && this.toolbar instanceof HTMLElement;
  }

  get on() {
    return this.toggle instanceof HTMLInputElement && this.toggle.checked;
  }

  /** Load another or a longer trajectory. The view may be on before it is loaded. @param {Turn[]} turns */
  show(turns) {
    this.turns = turns;
    if (this.on && this.loaded === "no") this.#switched();
    else if (this.on) this.#draw();
  }

  /** Toggle the view. @returns {boolean} whether the player has a token view */
  flip() {
    if (!(this.toggle instanceof HTMLInputElement) || !this.offered) return false;
    this.toggle.checked = !this.toggle.checked;
    this.#switched();
    return true;
  }

  /** After a turn change: move the tab stop to a visible token. */
  settle() {
    if (this.loaded !== "yes" || !this.on) return;
    const present = this.list.querySelector(".token[tabindex='0']");
    if (present instanceof HTMLElement && present.offsetParent) return;
    present?.setAttribute("tabindex", "-1");
    this.#seen()[0]?.setAttribute("tabindex", "0");
  }

  /** @param {HTMLInputElement} toggle */
  #listen(toggle) {
    toggle.addEventListener("change", () => this.#switched());
    this.#select().addEventListener("change", () => this.#shade());
    this.list.addEventListener("pointerover", (event) => this.#tell(this.#token(event.target)));
    this.list.addEventListener("focusin", (event) => this.#focused(this.#token(event.target)));
    this.list.addEventListener("click", (event) => this.#token(event.target)?.focus());
    this.list.addEventListener("keydown", (event) => {
      const token = this.#token(event.target);
      if (!token || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") toggle.focus();
      else if (!this.#move(token, event.key)) return;
      event.preventDefault();
    });
  }

  #select() {
    return /** @type {HTMLSelectElement} */ (this.toolbar?.querySelector("[data-token-measure]"));
  }

  /** @param {EventTarget|null} target */
  #token(target) {
    const found = target instanceof Element ? target.closest(".token") : null;
    return found instanceof HTMLElement ? found : null;
  }

  #switched() {
    /** @type {HTMLElement} */ (this.toolbar).hidden = !this.on;
    this.#draw();
    if (this.on && (this.loaded === "no" || this.loaded === "none")) void this.#load();
  }

  async #load() {
    this.loaded = "loading";
    this.#announce("Loading the tokens …");
    this.#draw();
    let note = "";
    try {
      const response = await fetch(this.root.dataset.tokens ?? "");
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      /** @type {{turns: TokenTurn[], note: string}} */ const data = await response.json();
      note = data.note;
      this.tokens = new Map(data.turns.map((turn) => [turn.turn, turn.tokens]));
      this.most = maxAdvantage(data.turns);
      this.loaded = data.turns.length ? "yes" : "none";
      for (const measure of /** @type {const} */ (["entropy", "advantage"])) {
        const known = data.turns.some((turn) => turn.tokens.some((token) => token[measure] !== null));
        const option = this.#select().querySelector(`[value=${measure}]`);
        if (option instanceof HTMLOptionElement) option.disabled = !known;
      }
    } catch (error) {
      this.loaded = "none";
      note = `The tokens could not be loaded: ${error instanceof Error ? error.message : error}. Switch the token view off and on to try again.`;
    }
    this.#announce(this.loaded === "yes" ? `${HELP} ${note}`.trim() : note);
    this.#draw();
  }

  /** @param {string} words */
  #announce(words) {
    const readout = this.toolbar?.querySelector("[data-token-readout]");
    if (readout) setText(readout, words);
  }

  /** Show plain responses in place of the thoughts at once, so that nothing moves when the tokens arrive. */
  #draw() {
    const shown = this.on && this.loaded !== "none";
    this.root.classList.toggle("tokens-on", shown);
    this.#select().disabled = this.loaded === "none";
    for (const item of this.list.querySelectorAll(".token-text")) item.remove();
    if (!shown) {
      this.#showLegend();
      return;
    }
    for (const turn of this.turns) {
      const thought = this.list.querySelector(`[data-turn="${turn.turn}"]:not(.typing) .thought`);
      const button = thought?.nextElementSibling;
      (button?.matches("[data-whole-text]") ? button : thought)?.after(this.#text(turn));
    }
    this.#shade();
    this.settle();
  }

  /** @param {Turn} turn */
  #text(turn) {
    const tokens = this.tokens.get(turn.turn);
    if (!tokens) return html("p", { class: "token-text" }, [visibleText(turn.response) + (turn.truncated ? "" : END)]);
    return html(
      "p",
      {
        class: "token-text",
        role: "listbox",
        "aria-label": `Tokens of turn ${turn.turn + 1}`,
        "aria-orientation": "horizontal",
      },
      tokens.map((token, index) => {
        const last = index === tokens.length - 1;
        const silent = silentName(token.text, last);
        return html(
          "span",
          {
            class: silent ? "token silent" : "token",
            role: "option",
            tabindex: "-1",
            "data-index": index,
            "aria-selected": "false",
            "aria-label": silent || (token.text.trim() ? null : "white space"),
          },
          [!silent ? visibleText(token.text) : last && !token.text ? END : SILENT],
        );
      }),
    );
  }

  #shade() {
    const measure = /** @type {Measure} */ (this.#select().value);
    for (const node of this.list.querySelectorAll(".token")) {
      const found = this.#of(node);
      if (!found) continue;
      const { level, sign } = shade(found.token, measure, this.most);
      node.setAttribute("data-level", String(level));
      if (sign) node.setAttribute("data-sign", sign);
      else node.removeAttribute("data-sign");
    }
    this.root.dataset.shaded = measure;
    this.#showLegend();
  }

  #showLegend() {
    const host = this.toolbar?.querySelector("[data-token-legend]");
    const measure = /** @type {Measure} */ (this.#select().value);
    const entries = this.loaded === "none" ? [] : legendEntries(measure, this.most);
    host?.replaceChildren(
      ...entries.map(({ level, sign, words }) =>
        html("span", { class: "token", "data-level": level, "data-sign": sign || null }, [words]),
      ),
    );
    const title = this.toolbar?.querySelector("[data-token-title]");
    if (title) setText(title, this.loaded === "none" ? "" : TITLES[measure]);
  }

  /** @param {Element} node */
  #of(node) {
    const turn = Number(node.closest("[data-turn]")?.getAttribute("data-turn"));
    const index = Number(node.getAttribute("data-index"));
    const tokens = this.tokens.get(turn);
    return tokens?.[index] ? { token: tokens[index], place: { index, count: tokens.length, turn } } : null;
  }

  /** @param {HTMLElement|null} node */
  #tell(node) {
    const found = node && this.#of(node);
    if (found) this.#announce(describeToken(found.token, found.place));
  }

  /** @param {HTMLElement|null} node */
  #focused(node) {
    if (!node) return;
    for (const other of this.list.querySelectorAll(".token[tabindex='0'], .token[aria-selected=true]")) {
      other.setAttribute("tabindex", "-1");
      other.setAttribute("aria-selected", "false");
    }
    node.setAttribute("tabindex", "0");
    node.setAttribute("aria-selected", "true");
    this.#tell(node);
  }

  /** Visible tokens; a stage shows one turn only. @returns {HTMLElement[]} */
  #seen() {
    return [.../** @type {NodeListOf<HTMLElement>} */ (this.list.querySelectorAll(".token"))].filter(
      (node) => node.offsetParent,
    );
  }

  /** @param {HTMLElement} from @param {string} key @returns {boolean} whether the key was handled */
  #move(from, key) {
    const all = this.#seen();
    const at = all.indexOf(from);
    const turnOf = (/** @type {HTMLElement} */ node) => node.parentElement;
    const own = all.filter((node) => turnOf(node) === turnOf(from));
    const starts = all.filter((node, index) => index === 0 || turnOf(all[index - 1]) !== turnOf(node));
    const turn = starts.indexOf(own[0]);
    const keys = /** @type {Record<string, HTMLElement|undefined>} */ ({
      ArrowRight: all[at + 1],
      ArrowLeft: all[at - 1],
      Home: own[0],
      End: own[own.length - 1],
      ArrowDown: starts[turn + 1],
      ArrowUp: starts[turn - 1],
    });
    if (!(key in keys)) return false;
    keys[key]?.focus();
    return true;
  }
}
