// @ts-check
/**
 * WebSocket of a run's page: resumes from a cursor without losing events, reconnects with jittered back-off, sends
 * pings.
 */

/** @typedef {{type: string} & Record<string, any>} Frame */

const PING_INTERVAL = 4_000;
const ANSWER_TIMEOUT = 10_000;

export class LiveSocket {
  /**
   * @param {string} path "/ws/runs/<slug>/"
   * @param {{cursor: () => string, onFrame: (frame: Frame) => void, onStatus: (status: "live"|"connecting"|"offline"|"refused") => void}}
   *   options
   */
  constructor(path, { cursor, onFrame, onStatus }) {
    this.path = path;
    this.cursor = cursor;
    this.onFrame = onFrame;
    this.onStatus = onStatus;
    this.failures = 0;
    this.pingedAt = 0; // of the oldest ping without an answer; 0 = all are answered
    /** @type {WebSocket|null} */ this.socket = null;
    /** @type {string|null} */ this.watched = null;
    this.retry = 0;
    this.closed = false;
    window.setInterval(() => this.#heartbeat(), PING_INTERVAL);
    window.addEventListener("offline", () => this.#pause());
    window.addEventListener("online", () => this.#reconnectNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.#reconnectNow());
    this.connect();
  }

  connect() {
    window.clearTimeout(this.retry);
    this.retry = 0;
    this.onStatus("connecting");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path}?${this.cursor()}`);
    this.socket = socket;
    this.pingedAt = 0;
    socket.addEventListener("open", () => {
      this.onStatus("live");
      if (this.watched) this.#send({ type: "watch", trajectory: this.watched });
    });
    socket.addEventListener("message", (message) => {
      this.pingedAt = 0;
      this.failures = 0;
      /** @type {Frame} */ const frame = JSON.parse(message.data);
      if (frame.type === "ping")
        this.#send({ type: "pong" }); // timers of a hidden page are too slow for its own pings
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

  /** Reconnect with the current cursor. */
  restart() {
    const old = this.socket;
    this.socket = null;
    old?.close();
    this.connect();
  }

  /** Subscribe to the token stream of a trajectory. @param {string} id */
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
    if (this.closed || this.socket?.readyState !== WebSocket.OPEN) return;
    if (this.pingedAt && Date.now() - this.pingedAt > ANSWER_TIMEOUT) this.restart();
    else if (!this.pingedAt) {
      this.pingedAt = Date.now();
      this.#send({ type: "ping" });
    }
  }

  /** The browser has lost its network: a socket would notice only when the server stops waiting. */
  #pause() {
    if (this.closed) return;
    const old = this.socket;
    this.socket = null;
    old?.close();
    window.clearTimeout(this.retry);
    this.retry = 0;
    this.onStatus("offline");
  }

  #reconnectNow() {
    if ((this.retry || !this.socket) && !this.closed) this.connect();
  }
}
