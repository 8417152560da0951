// @ts-check
/**
 * The live connection of a run's page: a cursor that never loses an event, reconnecting with jittered back-off, heartbeat.
 * What frames mean for the page is decided by whoever listens.
 */

/** @typedef {{type: string} & Record<string, any>} Frame */

const PING = 20_000;
const SILENCE = 50_000;

export class LiveSocket {
  /**
   * @param {string} path "/ws/runs/<slug>/"
   * @param {{cursor: () => number, onFrame: (frame: Frame) => void, onStatus: (status: "live"|"connecting"|"refused") => void}} options
   */
  constructor(path, { cursor, onFrame, onStatus }) {
    this.path = path;
    this.cursor = cursor;
    this.onFrame = onFrame;
    this.onStatus = onStatus;
    this.failures = 0;
    this.heard = 0;
    /** @type {WebSocket|null} */ this.socket = null;
    /** @type {string|null} */ this.watched = null;
    this.retry = 0;
    this.closed = false;
    window.setInterval(() => this.#heartbeat(), PING);
    window.addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
    this.connect();
  }

  connect() {
    window.clearTimeout(this.retry);
    this.retry = 0;
    this.onStatus("connecting");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path}?after=${this.cursor()}`);
    this.socket = socket;
    this.heard = Date.now();
    socket.addEventListener("open", () => {
      this.onStatus("live");
      if (this.watched) this.#send({ type: "watch", trajectory: this.watched });
    });
    socket.addEventListener("message", (message) => {
      this.heard = Date.now();
      this.failures = 0;
      /** @type {Frame} */ const frame = JSON.parse(message.data);
      if (frame.type === "ping") this.#send({ type: "pong" }); // a hidden page's own timers are too slow to be heard
      else this.onFrame(frame);
    });
    socket.addEventListener("close", (event) => {
      if (socket !== this.socket || this.closed) return;
      if (event.code >= 4400 && event.code < 4500) {
        this.closed = true;
        this.onStatus("refused");
        return;
      }
      this.failures += 1;
      this.onStatus("connecting");
      const wait = Math.min(15_000, 300 * 2 ** Math.min(this.failures, 6)) * (0.5 + Math.random());
      this.retry = window.setTimeout(() => this.connect(), wait);
    });
  }

  /** Drop this connection and come back with the present cursor. */
  restart() {
    const old = this.socket;
    this.socket = null;
    old?.close();
    this.connect();
  }

  /** Put this trajectory's thoughts on the wire. @param {string} id */
  watch(id) {
    if (id === this.watched) return;
    this.watched = id;
    this.#send({ type: "watch", trajectory: id });
  }

  /** @param {object} message */
  #send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  #heartbeat() {
    if (this.closed || !this.socket) return;
    if (this.socket.readyState === WebSocket.OPEN && Date.now() - this.heard > SILENCE) this.restart();
    else this.#send({ type: "ping" });
  }

  #hurry() {
    if (this.retry && !this.closed) this.connect();
  }
}
