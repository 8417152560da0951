// @ts-check
/** Command palette (Ctrl K or ⌘ K): pages, runs, environments, teams, and the actions of the current page. */

import { copy } from "./clipboard.js";
import { html, setText } from "./dom.js";
import { fetchJson } from "./fetch_json.js";
import { plural } from "./formatting.js";
import { openHelp } from "./shortcuts.js";
import { places } from "./site_keys.js";

/** @typedef {{title: string, detail?: string, href?: string, run?: () => void}} Command */
/** @typedef {{title: string, commands: Command[]}} Group */

const DEBOUNCE_MS = 150;
const PAGE_ACTIONS =
  ".run-head :is(.buttons, .run-actions) :is(button, a.button), .trajectory-head :is(button, a.button), .page-head a.button";
const NOT_OFFERED = "[hidden], dialog, .dialog, [popover]:not(#run-actions), .visibility"; // parts of forms and questions
const DIRECT_ACTIONS = 16;

/** Buttons and links that the page offers, by their labels; the palette presses them. @returns {Command[]} */
function pageActions() {
  /** @type {Map<string, Command>} */
  const found = new Map();
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(PAGE_ACTIONS))) {
    const title = (node.getAttribute("aria-label") ?? node.textContent ?? "").replace(/\s+/g, " ").trim();
    const offered = !node.closest(NOT_OFFERED) && !(node instanceof HTMLButtonElement && node.disabled);
    if (title.length > 2 && offered && !found.has(title)) found.set(title, { title, run: () => press(node) });
  }
  for (const tab of document.querySelectorAll("nav.tabs a")) {
    if (tab instanceof HTMLAnchorElement && !tab.ariaCurrent)
      found.set(tab.text, { title: `Tab: ${tab.text}`, href: tab.href });
  }
  return [...found.values()];
}

/**
 * Press a button of the page. On phones its menu is a closed popover, and what the button opens shows only inside it.
 * @param {HTMLElement} node
 */
function press(node) {
  const menu = node.closest("[popover]");
  if (menu instanceof HTMLElement && node.hasAttribute("popovertarget") && !menu.checkVisibility()) menu.showPopover();
  node.click();
}

/** @returns {Command[]} */
function siteActions() {
  const theme = document.querySelector("[data-theme-toggle]");
  return [
    { title: "Copy link to this page", run: () => void copy(location.href, "Link copied") },
    { title: "Switch between light and dark", run: () => theme instanceof HTMLElement && theme.click() },
    { title: "Keyboard shortcuts", detail: "?", run: openHelp },
  ];
}

/** Whether every word of the query occurs in the command. @param {Command} command @param {string} query */
function matches(command, query) {
  const text = `${command.title} ${command.detail ?? ""}`.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

class Palette {
  constructor() {
    this.input = /** @type {HTMLInputElement} */ (
      html("input", {
        type: "text",
        role: "combobox",
        "aria-expanded": "true",
        "aria-controls": "palette-list",
        "aria-autocomplete": "list",
        "aria-label": "Search pages, runs and actions",
        placeholder: "Search pages, runs and actions",
        autocomplete: "off",
        spellcheck: "false",
        maxlength: 100,
        enterkeyhint: "go",
      })
    );
    this.list = html("div", { role: "listbox", id: "palette-list", "aria-label": "Results" });
    this.count = html("p", { class: "visually-hidden", role: "status" });
    const close = html("button", { class: "plain", type: "button", "aria-label": "Close" }, ["Esc"]);
    const head = html("div", { class: "palette-head" }, [this.input, close]);
    this.dialog = /** @type {HTMLDialogElement} */ (
      html("dialog", { class: "palette", "aria-label": "Command palette" }, [head, this.list, this.count])
    );
    /** @type {Command[]} */ this.shown = [];
    /** @type {Group[]} */ this.found = [];
    this.foundFor = "";
    this.active = 0;
    this.timer = 0;
    this.asked = 0;
    document.body.append(this.dialog);
    close.addEventListener("click", () => this.dialog.close());
    this.input.addEventListener("input", () => this.#search());
    this.input.addEventListener("keydown", (event) => this.#key(event));
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.list.addEventListener("mousemove", (event) => this.#activate(this.#at(event), false));
    this.list.addEventListener("click", (event) => this.#run(this.shown[this.#at(event)]));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  open() {
    if (this.dialog.open || document.querySelector("dialog[open]")) return;
    this.actions = pageActions();
    this.input.value = "";
    this.dialog.showModal();
    this.#search(0);
  }

  /** @param {number} [delay] of the server's part */
  #search(delay = DEBOUNCE_MS) {
    this.active = 0;
    this.#show();
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.#fetch(), delay);
  }

  async #fetch() {
    const asked = ++this.asked,
      query = this.input.value.trim();
    const found = await fetchJson(`/palette.json?q=${encodeURIComponent(query)}`);
    if (asked !== this.asked || found === null) return;
    this.foundFor = query;
    this.found = found.groups.map((/** @type {{title: string, items: Command[]}} */ group) => ({
      title: group.title,
      commands: group.items,
    }));
    this.#show();
  }

  #show() {
    const query = this.input.value.trim();
    /** @param {Command[]} commands */
    const matching = (commands) => commands.filter((command) => !query || matches(command, query));
    const groups = [
      {
        title: "On this page",
        commands: matching([...(this.actions ?? []), ...siteActions()]).slice(0, DIRECT_ACTIONS),
      },
      {
        title: "Pages",
        commands: matching(places().map(({ title, href, key }) => ({ title, href, detail: key ? `g ${key}` : "" }))),
      },
      ...this.found.map(({ title, commands }) => ({
        title,
        commands: query === this.foundFor ? commands : matching(commands),
      })),
    ].filter(({ commands }) => commands.length > 0);
    if (query) groups.sort((one, two) => Number(two.title === "Runs") - Number(one.title === "Runs"));
    this.shown = groups.flatMap(({ commands }) => commands);
    let index = 0;
    const nodes = groups.map(({ title, commands }, at) =>
      html("div", { role: "group", "aria-labelledby": `palette-group-${at}` }, [
        html("div", { class: "palette-group", id: `palette-group-${at}` }, [title]),
        ...commands.map((command) => option(command, index++)),
      ]),
    );
    this.list.replaceChildren(
      ...(nodes.length ? nodes : [html("p", { class: "soft" }, [`Nothing matches “${query}”.`])]),
    );
    setText(this.count, plural(this.shown.length, "result"));
    this.#activate(Math.min(this.active, this.shown.length - 1), true);
  }

  /** @param {Event} event */
  #at(event) {
    const node = event.target instanceof Element ? event.target.closest("[role=option]") : null;
    return node instanceof HTMLElement ? Number(node.dataset.at) : this.active;
  }

  /** @param {number} index @param {boolean} scroll */
  #activate(index, scroll) {
    this.active = Math.max(0, index);
    this.list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    const node = document.getElementById(`palette-option-${this.active}`);
    node?.setAttribute("aria-selected", "true");
    if (scroll) node?.scrollIntoView({ block: "nearest" });
    if (node) this.input.setAttribute("aria-activedescendant", node.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.shown.length) {
      event.preventDefault();
      this.#activate((this.active + step + this.shown.length) % this.shown.length, true);
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      this.#run(this.shown[this.active], event.ctrlKey || event.metaKey);
    }
  }

  /** @param {Command|undefined} command @param {boolean} [inNewTab] */
  #run(command, inNewTab = false) {
    if (!command) return;
    this.dialog.close();
    if (command.href && inNewTab) window.open(command.href, "_blank", "noopener");
    else if (command.href) location.assign(command.href);
    else command.run?.();
  }
}

/** @param {Command} command @param {number} index */
function option({ title, detail }, index) {
  const children = [html("span", { class: "palette-title" }, [title]), html("span", { class: "soft" }, [detail ?? ""])];
  return html(
    "div",
    { role: "option", id: `palette-option-${index}`, "data-at": index, "aria-selected": "false" },
    children,
  );
}

/** @type {Palette|null} */
let palette = null;

/** Open the palette, or close it if it is open. */
export function togglePalette() {
  palette ??= new Palette();
  if (palette.dialog.open) palette.dialog.close();
  else palette.open();
}
