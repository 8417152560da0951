// @ts-check
/**
 * Trajectory player: board, turns and scrubber, moved by hand, by playback, or following live turns. Used by the stage
 * of a live run, the page of a trajectory and embeds.
 */

import { advice } from "./solver_advice.js";
import { beliefText, misplaced } from "../board/belief_overlay.js";
import { BoardView, playerOf } from "../board/board.js";
import { drawGraph } from "./distance_graph.js";
import { linkedIndex, markAt, mistakeIndices, nextMistake, showVerdict, turnRow } from "./mistakes.js";
import { showMistake } from "../board/mistake_overlay.js";
import { actionsTaken, indexOf, lostIndex, positionsOf, rewardSoFar, turnStart } from "./positions.js";
import { need, setText } from "../ui/dom.js";
import { imagesAddress, showOnBoard, watchImages } from "../board/observation_images.js";
import { Sound } from "./sound.js";
import { watchSwipes } from "./swipe.js";
import { watchClaims } from "../turns/claims.js";
import { LongTexts } from "../turns/long_text.js";
import { SearchHits } from "../turns/search_hits.js";
import { renderTurn } from "../turns/turn_item.js";
import { TypingTurn } from "../turns/typing.js";
import { plural, signed } from "../ui/formatting.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Turn} Turn */
/** @typedef {import("../types.js").LostAt} LostAt */
/** @typedef {import("./positions.js").Position} Position */

/** Milliseconds per position during playback at 1×. */
const PACE = { turn: 1100, action: 480 };
/** Milliseconds at the start of a turn, for each character of its thought, and at most; as in animations. */
const READING = { character: 28, most: 4500 };
/** Milliseconds per position while following a live trajectory. */
const LIVE_PACE = { turn: 200, action: 230 };
/** What the policy read before a turn. @type {"details"} */
const STATE = /** @type {any} */ (".turn > .turn-state:first-of-type");
/** Where static/css/player.css shows one turn under a sticky board. */
const PHONE = "(max-width: 600px)";

export class Player {
  /**
   * @param {HTMLElement} root an element with the markup of templates/trajectories/_player.html
   * @param {{onMove?: (position: Position) => void, onTake?: () => void}} [options] onTake: the user moved or paused it
   */
  constructor(root, { onMove = () => {}, onTake = () => {} } = {}) {
    this.root = root;
    this.onMove = onMove;
    this.onTake = onTake;
    this.board = new BoardView(need(root, "[data-board]"));
    this.list = need(root, "[data-turns]");
    this.tabs = need(root, "[data-tabs]");
    this.scrub = /** @type {HTMLInputElement} */ (need(root, "[data-scrub]"));
    this.speed = /** @type {HTMLSelectElement} */ (need(root, "[data-speed]"));
    this.solver = /** @type {HTMLInputElement} */ (need(root, "[data-solver]"));
    this.sound = new Sound(/** @type {HTMLInputElement} */ (need(root, "[data-sound]")));
    /** @type {import("./token_view.js").TokenView|null} */ this.tokens = null;
    this.hits = new SearchHits(JSON.parse(root.dataset.found || "[]"));
    this.texts = new LongTexts(this.list, (text) => this.hits.isIn(text));
    /** @type {TypingTurn|null} */ this.unfinished = null;
    /** @type {Trajectory|null} */ this.trajectory = null;
    /** @type {Position[]} */ this.positions = [];
    /** @type {number[]} */ this.mistakes = []; // their positions
    this.index = 0;
    this.following = false;
    this.playing = false;
    this.timer = 0;
    this.#listen();
    if (root.querySelector("[data-token-view]")) void this.#loadTokenView();
  }

  /** The live page has none, and does not load its modules. */
  async #loadTokenView() {
    const { TokenView } = await import("./token_view.js");
    this.tokens = new TokenView(this.root, this.list);
    if (this.trajectory) this.tokens.show(this.trajectory.turns);
  }

  /**
   * @param {Trajectory} trajectory
   * @param {{at?: (positions: Position[]) => number, follow?: boolean}} [options] follow: advance as turns are appended
   */
  load(trajectory, { at = () => 0, follow = false } = {}) {
    this.pause();
    this.trajectory = trajectory;
    this.following = follow;
    this.positions = positionsOf(trajectory);
    this.#endTyping();
    this.texts.clear();
    this.list.replaceChildren(...trajectory.turns.map((turn) => this.#renderTurn(turn)));
    const chat = isChat(trajectory, this.positions);
    this.root.classList.toggle("chat", chat);
    this.root.classList.add("drawn");
    if (chat) for (const state of this.list.querySelectorAll(STATE)) state.open = true;
    this.hits.mark(this.list.querySelectorAll(".thought, .response-text, .turn-rest pre, .chip"));
    this.tokens?.show(trajectory.turns);
    this.#outline();
    this.go(follow ? this.positions.length - 1 : at(this.positions), { animate: false });
  }

  /** Clear the player. */
  clear() {
    this.pause();
    this.trajectory = null;
    this.positions = [];
    this.#endTyping();
    this.texts.clear();
    this.list.replaceChildren();
    this.tabs.replaceChildren();
    this.board.show(null);
  }

  /**
   * Update a growing trajectory: draw new turns and, when following, step to them action by action.
   * @param {Trajectory} trajectory the same one, longer or finished
   */
  update(trajectory) {
    const before = this.trajectory;
    if (before === trajectory || !before) return;
    this.trajectory = trajectory;
    const grown = trajectory.turns.length !== before.turns.length;
    if (
      !grown &&
      before.lost_at === trajectory.lost_at &&
      before.success === trajectory.success &&
      before.marks === trajectory.marks
    )
      return;
    const empty = !before.turns.length;
    this.positions = positionsOf(trajectory);
    this.#endTyping();
    for (const turn of trajectory.turns.slice(before.turns.length)) this.list.append(this.#renderTurn(turn));
    if (this.root.matches(".chat")) for (const state of this.list.querySelectorAll(STATE)) state.open = true;
    const changed = new Set(before.marks === trajectory.marks ? [] : (trajectory.marks ?? []).map((mark) => mark.turn));
    if (trajectory.lost_at && !before.lost_at) changed.add(trajectory.lost_at.turn);
    for (const turn of changed) this.#redraw(turn);
    this.tokens?.show(trajectory.turns);
    this.#outline();
    this.#show({ animate: !empty });
    if (this.following) this.#schedule();
  }

  /**
   * Show an unfinished response.
   * @param {number} turn
   * @param {string} text the whole response so far
   */
  typing(turn, text) {
    if (!this.trajectory || turn < this.trajectory.turns.length) return;
    if (this.unfinished?.turn !== turn) {
      this.#endTyping();
      const boxes = [this.list, need(this.root, ".player-right")]; // one of them scrolls
      const ends = boxes.map(atEnd);
      this.unfinished = new TypingTurn(turn, () =>
        boxes.forEach((box, index) => {
          if (ends[index] && this.unfinished?.item.matches(".current")) box.scrollTop = box.scrollHeight;
        }),
      );
      for (const [index, box] of boxes.entries())
        box.onscroll = () => {
          ends[index] = atEnd(box);
        };
      this.list.append(this.unfinished.item);
      this.#outline();
      this.#mark();
    }
    this.unfinished.show(text);
  }

  #endTyping() {
    this.unfinished?.remove();
    this.unfinished = null;
  }

  /**
   * @param {number} index
   * @param {{animate?: boolean}} [options]
   */
  go(index, { animate = true } = {}) {
    const to = Math.max(0, Math.min(index, this.positions.length - 1));
    const [near, forward] = [Math.abs(to - this.index) <= 1, to === this.index + 1];
    const turn = this.positions[this.index]?.turn;
    this.index = to;
    this.#show({ animate: animate && near });
    if (animate && forward) this.#ring(to);
    if (animate && turn !== this.positions[to]?.turn) this.#scrollToTurn();
    if (this.positions[to]) this.onMove(this.positions[to]);
  }

  play() {
    if (this.index >= this.positions.length - 1) this.go(0, { animate: false });
    this.playing = true;
    this.#button();
    this.#schedule();
  }

  pause() {
    this.playing = false;
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.#button();
  }

  /** Move on user input; stops following unless the target is the live edge. @param {number} index */
  take(index) {
    this.onTake();
    this.pause();
    const live = this.root.dataset.live !== undefined;
    this.following = live && index >= this.positions.length - 1;
    this.go(index);
  }

  /**
   * Handle a key of the player.
   * @param {string} key
   * @returns {boolean} whether the key was handled
   */
  key(key) {
    switch (key) {
      case "ArrowLeft":
        this.take(this.index - 1);
        return true;
      case "ArrowRight":
        this.take(this.index + 1);
        return true;
      case "ArrowUp":
        this.take(turnStart(this.positions, this.index, -1));
        return true;
      case "ArrowDown":
        this.take(turnStart(this.positions, this.index, 1));
        return true;
      case "Home":
        this.take(0);
        return true;
      case "End":
        this.take(this.positions.length - 1);
        return true;
      case " ":
        this.onTake();
        if (this.playing) this.pause();
        else this.play();
        return true;
      case "n":
        return this.#toMistake(1);
      case "p":
        return this.#toMistake(-1);
      case "t":
        return this.tokens?.flip() ?? this.#flipTokenView();
      case "s":
        this.sound.flip();
        return true;
      case "v":
        this.solver.checked = !this.solver.checked;
        this.#show({ animate: false });
        return true;
      default:
        return false;
    }
  }

  /** Turn the token view on or off before it is loaded. @returns {boolean} whether there is one */
  #flipTokenView() {
    const toggle = this.root.querySelector("[data-token-view]");
    if (!(toggle instanceof HTMLInputElement)) return false;
    toggle.checked = !toggle.checked;
    return true;
  }

  /** Without a mistake that way, nothing changes. @param {1|-1} way @returns {true} */
  #toMistake(way) {
    const to = nextMistake(this.mistakes, this.index, way);
    if (to !== this.index) this.take(to);
    return true;
  }

  #listen() {
    this.scrub.addEventListener("input", () => this.take(Number(this.scrub.value)));
    this.solver.addEventListener("change", () => this.#show({ animate: false }));
    watchImages(this.root);
    watchSwipes(this.root, (way) => this.take(this.index + way));
    watchClaims(this.list, (turn, claim) => this.#light(turn, claim));
    this.root.addEventListener("click", (event) => {
      const target = /** @type {Element} */ (event.target);
      const command = target.closest("[data-do]")?.getAttribute("data-do");
      if (command === "back") this.take(this.index - 1);
      if (command === "forward") this.take(this.index + 1);
      if (command === "play") this.key(" ");
      const tab = target.closest("[data-tab]");
      if (tab) this.take(indexOf(this.positions, Number(tab.getAttribute("data-tab")), -1));
      const plain = !(event instanceof MouseEvent && (event.metaKey || event.ctrlKey || event.shiftKey));
      const linked = linkedIndex(target, this.positions);
      if (linked >= 0 && plain) {
        event.preventDefault();
        this.take(linked);
      }
      const link = target.closest("[data-step]");
      const turn = link?.closest("[data-turn]")?.getAttribute("data-turn");
      if (link && turn && plain) {
        event.preventDefault();
        this.take(indexOf(this.positions, Number(turn), Number(link.getAttribute("data-step"))));
        // A finger lights nothing in passing, as a pointer does.
        if (link.hasAttribute("data-claim")) this.#light(Number(turn), Number(link.getAttribute("data-claim")));
      }
    });
  }

  /**
   * Show the state that a turn's thought is about, with the cells of one of its claims lit; without one, the position
   * again.
   * @param {number} number of the turn
   * @param {number} index of the claim, or −1
   */
  #light(number, index) {
    const claim = this.trajectory?.turns.find((turn) => turn.turn === number)?.claims?.[index];
    const position = this.positions[indexOf(this.positions, number, -1)];
    if (!claim || !position) {
      this.#draw({ animate: false });
      return;
    }
    this.board.show(position.board);
    this.board.light(claim);
    this.board.believe(misplaced([claim]));
  }

  #schedule() {
    if (this.timer || (!this.playing && !this.following)) return;
    const next = this.positions[this.index + 1];
    if (!next) {
      if (this.playing) this.pause();
      return;
    }
    const pace = this.playing ? PACE : LIVE_PACE;
    const reading = this.playing && this.positions[this.index].action < 0 ? this.#readingTime() : 0;
    const wait =
      Math.max(next.action < 0 ? pace.turn : pace.action, reading) / (this.playing ? Number(this.speed.value) : 1);
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.go(this.index + 1);
      this.#schedule();
    }, wait);
  }

  /** Milliseconds to read the thought of the current turn, while it is shown. */
  #readingTime() {
    const { turn: at } = this.positions[this.index];
    const turn = this.trajectory?.turns.find((candidate) => candidate.turn === at);
    return Math.min(READING.most, READING.character * (turn?.thought || turn?.response || "").length);
  }

  /** @param {Turn} turn */
  #lostIn(turn) {
    const lost = this.trajectory?.lost_at;
    return lost && lost.turn === turn.turn ? lost.action : -1;
  }

  /** @param {Turn} turn */
  #renderTurn(turn) {
    const marks = (this.trajectory?.marks ?? []).filter((mark) => mark.turn === turn.turn);
    const item = renderTurn(turn, {
      lost: this.#lostIn(turn),
      marks,
      images: imagesAddress(this.root, this.trajectory),
      recorded: this.trajectory?.recorded ?? false,
      slug: this.trajectory?.slug ?? "",
    });
    this.texts.watch(item);
    return item;
  }

  /** @param {number} index of a turn whose marks changed */
  #redraw(index) {
    const turn = this.trajectory?.turns.find((candidate) => candidate.turn === index);
    const item = this.list.querySelector(`[data-turn="${index}"]`);
    if (!turn || !item) return;
    const redrawn = this.#renderTurn(turn);
    const unfolded = [...item.querySelectorAll("details")].map((part) => part.open);
    for (const [number, part] of redrawn.querySelectorAll("details").entries()) part.open = unfolded[number] ?? false;
    item.replaceWith(redrawn);
  }

  /** Redraw tabs and graph, which depend on the length of the trajectory only. */
  #outline() {
    const turns = [...this.list.querySelectorAll("[data-turn]")].map((item) => Number(item.getAttribute("data-turn")));
    this.tabs.replaceChildren(
      ...turns.map((turn) =>
        turnRow(
          turn,
          this.trajectory?.turns.find((candidate) => candidate.turn === turn),
          this.trajectory?.marks ?? [],
        ),
      ),
    );
    this.scrub.max = String(Math.max(0, this.positions.length - 1));
    const { trajectory } = this;
    const lost = trajectory ? lostIndex(trajectory, this.positions) : -1;
    this.mistakes = mistakeIndices(trajectory, this.positions);
    const marks = (trajectory?.marks ?? []).map((mark) => ({
      index: indexOf(this.positions, mark.turn, mark.action),
      kind: mark.kind,
    }));
    const words = drawGraph(need(this.root, "[data-graph]"), this.positions, {
      lost,
      success: trajectory?.success ?? null,
      marks,
    });
    setText(need(this.root, "[data-graph-words]"), words);
    need(this.root, ".track").title = words;
  }

  /** @param {{animate: boolean}} options */
  #show({ animate }) {
    const position = this.positions[this.index];
    if (!position || !this.trajectory) return;
    this.#draw({ animate });
    this.scrub.value = String(this.index);
    this.scrub.setAttribute("aria-valuetext", this.#position(position));
    setText(need(this.root, "[data-position]"), this.#position(position));
    const advised = this.solver.checked ? advice(this.trajectory, this.positions, this.index) : "";
    setText(need(this.root, "[data-advice]"), advised);
    setText(need(this.root, "[data-belief]"), beliefText(this.#claims(position)));
    this.root.classList.toggle("no-solver", !this.solver.checked);
    showVerdict(need(this.root, "[data-verdict]"), this.trajectory, markAt(this.trajectory, position));
    this.#mark();
  }

  /** Play the sound of the action that led to a position. @param {number} index */
  #ring(index) {
    const { trajectory } = this;
    if (!trajectory || this.positions[index].action < 0) return;
    const solved = trajectory.success === true && index === this.positions.length - 1;
    const lost = lostIndex(trajectory, this.positions) === index;
    this.sound.play(solved ? "solved" : lost ? "lost" : "tap");
  }

  /** Draw the board of the current position. @param {{animate: boolean}} options */
  #draw({ animate }) {
    const position = this.positions[this.index];
    if (!position) return;
    this.board.show(position.board, { animate });
    const turn = this.trajectory?.turns.find((candidate) => candidate.turn === position.turn);
    this.root.classList.toggle(
      "observed",
      showOnBoard(this.board.host, position.board, turn, imagesAddress(this.root, this.trajectory)),
    );
    this.board.believe(misplaced(this.#claims(position)));
    const record = position.record;
    this.board.walk(this.#way());
    const from = playerOf(this.positions[this.index - 1]?.board);
    if (record?.actual && record.name && from) this.board.slip(from, record.name, record.actual);
    if (!this.solver.checked) return;
    const mark = markAt(this.trajectory, position);
    if (mark) showMistake(this.board, mark, this.positions[this.index - 1]?.board ?? null);
    else if (!record?.actual) this.board.advise(position.hint?.actions ?? []);
  }

  /** Claims of the thought about this state; after an action there is no thought about it. @param {Position} position */
  #claims({ turn: at, action }) {
    const turn = this.trajectory?.turns.find((candidate) => candidate.turn === at);
    return action < 0 ? (turn?.claims ?? []) : [];
  }

  /** Cells of the player from the start of the turn to the current position. */
  #way() {
    const { turn } = this.positions[this.index];
    return this.positions
      .slice(0, this.index + 1)
      .filter((position) => position.turn === turn)
      .flatMap((position) => playerOf(position.board) ?? []);
  }

  /** @param {Position} position */
  #position(position) {
    const turn = this.trajectory?.turns.find((candidate) => candidate.turn === position.turn);
    if (!turn || !this.trajectory) return "Initial state";
    const { recorded, turns } = this.trajectory;
    const start = recorded && !turn.actions.length ? "" : ", before its actions";
    const where = position.action < 0 ? start : `, action ${position.action + 1} of ${turn.actions.length}`;
    const taken =
      recorded && !turns.some(({ actions }) => actions.length)
        ? ""
        : `${plural(actionsTaken(this.positions, this.index), "action")} taken`;
    const reward = turns.some(({ terms }) => Object.keys(terms).length)
      ? `reward ${signed(rewardSoFar(this.trajectory, position))} so far`
      : "";
    return [`Turn ${position.turn + 1} of ${turns.length}${where}`, [taken, reward].filter(Boolean).join(", ")]
      .filter(Boolean)
      .join(" · ");
  }

  /** Highlight the current turn and action. */
  #mark() {
    const position = this.positions[this.index];
    if (!position) return;
    const writing = this.list.querySelector(".typing");
    const edge = this.index === this.positions.length - 1;
    const turn = writing && this.following && edge ? writing.getAttribute("data-turn") : String(position.turn);
    for (const item of this.list.children) {
      const current = item.getAttribute("data-turn") === turn;
      if (current && !item.classList.contains("current")) {
        this.texts.apply(item);
        need(this.root, ".player-right").scrollTop = 0;
      }
      item.classList.toggle("current", current);
      for (const link of item.querySelectorAll("[data-step]:not([data-claim])")) {
        const at = Number(link.getAttribute("data-step"));
        const here = item.getAttribute("data-turn") === String(position.turn) && at === position.action;
        link.classList.toggle("here", here);
        if (here) link.setAttribute("aria-current", "step");
        else link.removeAttribute("aria-current");
        link.classList.toggle("ahead", current && at > position.action && !item.matches(".typing"));
      }
    }
    for (const tab of this.tabs.children) {
      const current = tab.getAttribute("data-tab") === turn;
      tab.classList.toggle("current", current);
      tab.setAttribute("aria-pressed", String(current));
    }
    this.tokens?.settle();
  }

  /** On a phone, where one turn is shown: scroll its beginning below the board, if it is elsewhere. */
  #scrollToTurn() {
    const item = this.list.querySelector(".turn.current");
    if (item && this.root.matches(".chat")) {
      item.scrollIntoView({ block: "nearest" });
      return;
    }
    if (!item || this.root.dataset.live !== undefined || !window.matchMedia(PHONE).matches) return;
    const board = need(this.root, ".board-box").offsetHeight; // it sticks to the top
    const { top } = item.getBoundingClientRect();
    if (top < board || top > window.innerHeight * 0.7) window.scrollBy({ top: top - board - 8 });
  }

  #button() {
    const button = this.root.querySelector("[data-do=play]");
    if (!button) return;
    button.setAttribute("aria-label", this.playing ? "Pause playback" : "Play");
    button.classList.toggle("is-playing", this.playing);
  }
}

/**
 * Whether a trajectory is a dialogue without anything to draw: then there is no board, and all turns are in view.
 * @param {Trajectory} trajectory
 * @param {Position[]} positions
 */
function isChat({ recorded, turns }, positions) {
  return (
    Boolean(recorded) &&
    positions.every(({ board }) => board.kind === "text" && !board.grid) &&
    !turns.some((turn) => turn.images?.length)
  );
}

/** Whether an element is scrolled to its end, give or take a line. @param {Element} box */
function atEnd(box) {
  return box.scrollTop + box.clientHeight >= box.scrollHeight - 24;
}
