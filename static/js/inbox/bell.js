// @ts-check
/**
 * The bell of the navigation: unread count, live. Of all open pages of a browser, one holds the socket (Web Locks) and
 * passes on what it receives (BroadcastChannel); it also shows the browser's notifications.
 */

import { LiveSocket } from "../live/socket.js";
import { html, setText } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";
import { areOn, notify } from "./browser_notifications.js";

/** @typedef {import("./browser_notifications.js").Entry} Entry */
/** @typedef {{type: string, unread: number, entries: Entry[], cursor: number}} Update */

class Bell {
  /** @param {HTMLElement} node */
  constructor(node) {
    this.node = node;
    const name = `echoscope.inbox.${node.dataset.user}`;
    this.key = name;
    this.channel = new BroadcastChannel(name);
    this.channel.addEventListener("message", ({ data }) => this.#show(data));
    /** Time of the newest entry that a page of this browser has received, in microseconds. */
    this.cursor = this.#stored();
    if (navigator.locks) void navigator.locks.request(name, () => this.#connect());
    else void this.#connect(); // an address without https: each page has its own socket
  }

  /** Hold the socket until the page closes. @returns {Promise<void>} */
  #connect() {
    this.cursor = Math.max(this.cursor, this.#stored());
    this.socket = new LiveSocket("/ws/inbox/", {
      cursor: () => (this.cursor ? `after=${this.cursor}` : ""),
      onFrame: (frame) => this.#receive(/** @type {Update} */ (frame)),
      onStatus: () => {},
    });
    return new Promise(() => {});
  }

  /** @param {Update} update */
  #receive(update) {
    if (update.type !== "inbox") return;
    this.cursor = update.cursor;
    try {
      localStorage.setItem(this.key, String(update.cursor));
    } catch {
      /* storage is forbidden: after a reload, nothing of before is shown again */
    }
    this.channel.postMessage(update);
    this.#show(update);
    if (areOn()) for (const entry of update.entries.toReversed()) notify(entry);
  }

  #stored() {
    try {
      return Number(localStorage.getItem(this.key) ?? 0) || 0;
    } catch {
      return 0;
    }
  }

  /** @param {Update} update */
  #show({ unread, entries }) {
    this.node.querySelector(".unread")?.remove();
    if (unread) this.node.append(html("b", { class: "unread" }, [unread > 99 ? "99+" : String(unread)]));
    this.node.setAttribute("aria-label", unread ? `Inbox, ${unread} unread` : "Inbox");
    const note = document.querySelector("[data-inbox-new]");
    if (!entries.length || !(note instanceof HTMLElement)) return;
    note.hidden = false;
    if (!note.querySelector("a")) note.append(html("span", {}), " ", html("a", { href: "/inbox" }, ["Show"]));
    this.arrived = (this.arrived ?? 0) + entries.length;
    setText(
      /** @type {Element} */ (note.querySelector("span")),
      `${plural(this.arrived, "new entry", "new entries")}.`,
    );
  }
}

const node = document.querySelector("[data-bell]");
if (node instanceof HTMLElement) new Bell(node);
