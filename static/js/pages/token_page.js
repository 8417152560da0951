// @ts-check
/** Tokens of an attempt: everything that the policy read and wrote, coloured by what is known of each token. */

import {
  describe,
  largest,
  modesOf,
  partTitle,
  partsOf,
  pythonCode,
  search,
  segmentAt,
  shadeOf,
  shownText,
  titleOf,
} from "../player/reading.js";
import { copy } from "../ui/clipboard.js";
import { html, need, setText } from "../ui/dom.js";
import { fetchJson } from "../ui/fetch_json.js";
import { plural } from "../ui/formatting.js";

/** @typedef {import("../player/reading.js").Reading} Reading */
/** @typedef {import("../player/reading.js").Mode} Mode */
/** @typedef {import("../player/reading.js").Part} Part */

const MAP_HEIGHT = 26;
const KIND_ROW = 10; // height of the map's row of kinds, pixels
const NEAR = "900px 0px"; // parts this far outside the window have their tokens
const HELP = "Point at a token, or go to it with Tab and the arrow keys, to read its numbers.";

class TokenPage {
  /** @param {HTMLElement} panel @param {Reading} reading */
  constructor(panel, reading) {
    this.panel = panel;
    this.reading = reading;
    this.parts = partsOf(reading.segments);
    this.retokenised = new Set(reading.retokenised);
    this.clipped = new Set(reading.clipped);
    this.flow = need(panel, "[data-token-flow]");
    this.map = /** @type {HTMLCanvasElement} */ (need(panel, "[data-token-map]"));
    this.readout = need(panel, "[data-token-readout]");
    this.select = /** @type {HTMLSelectElement} */ (need(panel, "[data-token-mode]"));
    this.query = /** @type {HTMLInputElement} */ (need(panel, "[data-token-query]"));
    this.by = /** @type {HTMLSelectElement} */ (need(panel, "[data-token-by]"));
    /** @type {Array<[number, number]>} */ this.matches = [];
    this.match = -1;
    this.most = 0;
    /** @type {Set<HTMLElement>} */ this.filled = new Set();
    const modes = modesOf(reading);
    for (const option of this.select.options) option.disabled = !modes.has(/** @type {Mode} */ (option.value));
    const asked = new URLSearchParams(location.search).get("colour");
    if (asked && modes.has(/** @type {Mode} */ (asked))) this.select.value = asked;
    this.nodes = this.parts.map((part) => this.#place(part));
    this.flow.replaceChildren(...this.nodes.map((node) => node.section));
    this.watcher = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) if (entry.isIntersecting) this.#fill(/** @type {HTMLElement} */ (entry.target));
      },
      { rootMargin: NEAR },
    );
    for (const { text } of this.nodes) this.watcher.observe(text);
    this.#listen();
    this.#colour();
    setText(this.readout, HELP);
    this.#goToHash();
  }

  /** @returns {Mode} */
  get mode() {
    return /** @type {Mode} */ (this.select.value);
  }

  /** A part with its plain text, which its tokens replace when it comes near. @param {Part} part */
  #place(part) {
    const text = html("p", { class: "token-text", "data-first": part.start, "data-last": part.end - 1 }, [
      this.reading.texts.slice(part.start, part.end).join(""),
    ]);
    const heading = html("h3", { class: "token-part-title" }, [partTitle(part)]);
    return { part, text, section: html("section", { class: part.sampled ? "written" : "read" }, [heading, text]) };
  }

  /** @param {HTMLElement} text */
  #fill(text) {
    if (this.filled.has(text)) return;
    this.filled.add(text);
    const first = Number(text.dataset.first);
    const last = Number(text.dataset.last);
    text.setAttribute("role", "listbox");
    text.setAttribute("aria-orientation", "horizontal");
    text.setAttribute("aria-label", text.previousElementSibling?.textContent ?? "");
    /** @type {HTMLElement[]} */
    const tokens = [];
    for (let at = first; at <= last; at += 1) {
      const segment = segmentAt(this.reading.segments, at);
      const shown = shownText(this.reading, at, segment.sampled && at === last);
      const node = html(
        "span",
        {
          class: shown.silent ? "token silent" : "token",
          id: `token-${at}`,
          role: "option",
          tabindex: "-1",
          "data-at": at,
          "data-kind": segment.sampled ? "sampled" : segment.kind,
          "data-clipped": this.clipped.has(at),
          "aria-selected": "false",
          "aria-label": shown.silent || (this.reading.texts[at].trim() ? null : "white space"),
        },
        [shown.text],
      );
      tokens.push(node);
    }
    text.replaceChildren(...tokens);
    this.#shade(text);
    if (!this.flow.querySelector(".token[tabindex='0']")) tokens[0]?.setAttribute("tabindex", "0");
  }

  /** @param {HTMLElement} text */
  #shade(text) {
    const mode = this.mode;
    for (const node of text.children) {
      const at = Number(node.getAttribute("data-at"));
      const segment = segmentAt(this.reading.segments, at);
      const { level, sign } = shadeOf(this.reading, at, mode, {
        most: this.most,
        segment,
        retokenised: this.retokenised,
      });
      node.setAttribute("data-level", String(level));
      if (sign) node.setAttribute("data-sign", sign);
      else node.removeAttribute("data-sign");
      node.classList.toggle(
        "found",
        this.matches.some(([from, to]) => from <= at && at < to),
      );
    }
  }

  #colour() {
    const mode = this.mode;
    this.most = mode === "share" || mode === "advantage" ? largest(this.reading[mode]) : 0;
    this.panel.dataset.shaded = mode;
    setText(need(this.panel, "[data-token-title]"), titleOf(this.reading, mode));
    need(this.panel, "[data-kind-legend]").hidden = mode !== "kind";
    for (const text of this.filled) this.#shade(text);
    this.#drawMap();
  }

  /** Colour by a mode, which the address keeps. @param {Mode} mode */
  #choose(mode) {
    this.select.value = mode;
    const address = new URL(location.href);
    if (mode === "kind") address.searchParams.delete("colour");
    else address.searchParams.set("colour", mode);
    history.replaceState(history.state, "", address);
    this.#colour();
  }

  #listen() {
    this.select.addEventListener("change", () => this.#choose(this.mode));
    for (const link of document.querySelectorAll("a[data-colour]"))
      link.addEventListener("click", () => this.#choose(/** @type {Mode} */ (link.getAttribute("data-colour"))));
    this.query.addEventListener("input", () => this.#search());
    this.by.addEventListener("change", () => this.#search());
    this.query.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.#step(event.shiftKey ? -1 : 1);
    });
    need(this.panel, "[data-token-code]").addEventListener("click", () => {
      void copy(pythonCode(this.reading, this.panel.dataset.model ?? ""), "Code copied");
    });
    this.map.addEventListener("click", (event) => {
      const share = event.offsetX / Math.max(1, this.map.clientWidth);
      this.#go(Math.min(this.reading.ids.length - 1, Math.floor(share * this.reading.ids.length)));
    });
    this.flow.addEventListener("pointerover", (event) => this.#tell(event.target));
    this.flow.addEventListener("focusin", (event) => this.#focused(event.target));
    this.flow.addEventListener("click", (event) => this.#token(event.target)?.focus());
    this.flow.addEventListener("keydown", (event) => this.#key(event));
    window.addEventListener("hashchange", () => this.#goToHash());
    new ResizeObserver(() => this.#drawMap()).observe(this.map);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#drawMap());
  }

  /** @param {EventTarget|null} target */
  #token(target) {
    const found = target instanceof Element ? target.closest(".token[data-at]") : null;
    return found instanceof HTMLElement ? found : null;
  }

  /** @param {EventTarget|null} target */
  #tell(target) {
    const node = this.#token(target);
    if (node) setText(this.readout, describe(this.reading, Number(node.dataset.at)));
  }

  /** @param {EventTarget|null} target */
  #focused(target) {
    const node = this.#token(target);
    if (!node) return;
    for (const other of this.flow.querySelectorAll(".token[tabindex='0'], .token[aria-selected=true]")) {
      other.setAttribute("tabindex", "-1");
      other.setAttribute("aria-selected", "false");
    }
    node.setAttribute("tabindex", "0");
    node.setAttribute("aria-selected", "true");
    history.replaceState(history.state, "", `#${node.id}`);
    this.#tell(node);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const node = this.#token(event.target);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Number(node.dataset.at);
    const here = this.parts.findIndex((part) => part.start <= at && at < part.end);
    /** @type {Record<string, number|undefined>} */
    const keys = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      Home: this.parts[here].start,
      End: this.parts[here].end - 1,
      ArrowDown: this.parts[here + 1]?.start,
      ArrowUp: this.parts[here - 1]?.start,
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    const next = keys[event.key];
    if (next !== undefined && next >= 0 && next < this.reading.ids.length) this.#go(next);
  }

  /** Focus a token, wherever it is. @param {number} at */
  #go(at) {
    const part = this.nodes.find((node) => node.part.start <= at && at < node.part.end);
    if (!part) return;
    this.#fill(part.text);
    const token = document.getElementById(`token-${at}`);
    token?.focus({ preventScroll: true });
    token?.scrollIntoView({ block: "nearest" });
  }

  #goToHash() {
    const found = /^#token-(\d+)$/.exec(location.hash);
    if (found) this.#go(Number(found[1]));
  }

  #search() {
    this.matches = search(this.reading, this.query.value, this.by.value === "ids" ? "ids" : "text");
    this.match = -1;
    for (const text of this.filled) this.#shade(text);
    const words = this.query.value ? plural(this.matches.length, "match", "matches") : "";
    setText(need(this.panel, "[data-token-found]"), words);
  }

  /** To the next match; the search keeps the focus. @param {1|-1} by */
  #step(by) {
    if (!this.matches.length) return;
    this.match = (this.match + by + this.matches.length) % this.matches.length;
    const [from] = this.matches[this.match];
    this.#go(from);
    this.query.focus({ preventScroll: true });
    setText(need(this.panel, "[data-token-found]"), `${this.match + 1} of ${this.matches.length}`);
  }

  /** The whole dialogue: a row of kinds, and a row of the strongest shade of the tokens in each column of pixels. */
  #drawMap() {
    const width = this.map.clientWidth;
    const context = this.map.getContext("2d");
    if (!context || !width) return;
    const ratio = window.devicePixelRatio || 1;
    this.map.width = width * ratio;
    this.map.height = MAP_HEIGHT * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const total = this.reading.ids.length;
    const colours = this.#colours();
    for (const segment of this.reading.segments) {
      const x = (segment.start / total) * width;
      context.fillStyle = colours[segment.sampled ? "sampled" : segment.kind] ?? colours.other;
      context.fillRect(x, 0, Math.max(1, (segment.tokens / total) * width), KIND_ROW);
    }
    if (this.mode === "kind") return;
    const known = { most: this.most, retokenised: this.retokenised };
    context.fillStyle = colours.shade;
    for (let x = 0; x < width; x += 1) {
      const first = Math.floor((x / width) * total);
      const last = Math.max(first + 1, Math.floor(((x + 1) / width) * total));
      let level = 0;
      for (let at = first; at < last && level < 4; at += 1) {
        const segment = segmentAt(this.reading.segments, at);
        level = Math.max(level, shadeOf(this.reading, at, this.mode, { ...known, segment }).level);
      }
      const height = ((MAP_HEIGHT - KIND_ROW - 2) * level) / 4;
      if (level) context.fillRect(x, MAP_HEIGHT - height, 1, height);
    }
  }

  /** Colours of the theme, by kind. @returns {Record<string, string>} */
  #colours() {
    const probe = html("span", { class: "token" });
    this.panel.append(probe);
    /** @type {Record<string, string>} */
    const colours = {};
    for (const kind of ["template", "system", "task", "observation", "response", "other", "sampled"]) {
      probe.dataset.kind = kind;
      colours[kind] = getComputedStyle(probe).getPropertyValue("--kind");
    }
    probe.style.color = "var(--shade)";
    colours.shade = getComputedStyle(probe).color;
    probe.style.color = "";
    for (const [name, value] of Object.entries(colours)) {
      probe.style.color = value;
      colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return colours;
  }
}

const panel = document.querySelector("[data-token-page]");
if (panel instanceof HTMLElement) {
  const reading = await fetchJson(panel.dataset.source ?? "");
  if (reading) new TokenPage(panel, reading);
  else setText(need(panel, "[data-token-readout]"), "The tokens could not be loaded. Reload the page to try again.");
}
