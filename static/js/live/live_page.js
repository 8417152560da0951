// @ts-check
/** Live page of a run: receives frames, reduces them to the page's state and redraws the parts that changed. */

import { Chart, evaluationLine, onIterations } from "../curves/chart.js";
import { Player } from "../player/player.js";
import { lostIndex, toAddress } from "../player/positions.js";
import { copy } from "../ui/clipboard.js";
import { need, setText } from "../ui/dom.js";
import { fetchJson } from "../ui/fetch_json.js";
import { number, ordinal, percent, plural } from "../ui/formatting.js";
import { onKey } from "../ui/shortcuts.js";
import "./alert_me.js";
import "./echo_meter.js";
import "./faults.js";
import "./first_successes.js";
import { alarmBands, showEchoTrap } from "./echo_trap.js";
import "./intro.js";
import { locate, reduce } from "./reducer.js";
import { Reel, reelIteration } from "./reel.js";
import { RolloutGrid } from "./rollout_grid.js";
import { hasEnded, showConnection, showHeader } from "./run_header.js";
import "./run_tabs.js";
import { Selection } from "./selection.js";
import { LiveSocket } from "./socket.js";
import { showStageNote } from "./stage_note.js";
import { Thumbnail } from "./thumbnail.js";
import { showTrainingUse } from "./training_use.js";
import "./waiting_rewind.js";
import { UpdateProgress } from "./update_progress.js";
import { showOutcome, Verdicts } from "./verdicts.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Member} Member */

const RELOAD_DELAY = 1200;
const RESYNC_DELAY = 2000;
const STAGE_INTERVAL = 500;
const MAX_GROUPS = 4096;

/** Page of a run: header and connection on every tab; wall, stage, charts and Echo Trap panel on the live tab. */
export class LivePage {
  /**
   * @param {HTMLElement} root
   * @param {Snapshot} state
   */
  constructor(root, state) {
    this.root = root;
    this.state = state;
    /** @type {Partial<Snapshot>} state that the page shows */ this.drawn = {};
    /** @type {string} id of the trajectory on the stage */ this.staged = "";
    this.scheduled = false;
    this.resyncing = false;
    /** @type {import("./run_header.js").Connection} */ this.connection = "connecting";
    this.slow = false;
    this.live = document.querySelector("[data-stage]") !== null;
    this.color = `--run-${root.dataset.colour}`;
    this.limits = {
      turns: Number(root.dataset.turns),
      groups: Number(root.dataset.groups),
      size: Number(root.dataset.size),
    };
    this.reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.player = this.live
      ? new Player(need(document, "[data-stage] [data-player]"), { onTake: () => this.#hold() })
      : null;
    this.verdicts = new Verdicts(() => this.schedule());
    this.progress = new UpdateProgress();
    this.learning = "";
    this.reel = new Reel(state.run.slug, {
      shownToEnd: () => this.#shownToEnd(),
      still: () => this.reducedMotion.matches,
      changed: () => this.schedule(),
    });
    this.thumbnail = this.live ? new Thumbnail(need(document, "[data-thumbnail]")) : null;
    this.charts = this.live ? liveCharts() : null;
    this.grid = this.live
      ? new RolloutGrid(need(document, "[data-wall]"), {
          onPick: (member) => this.#pick(member),
          onHover: (member, cell) => this.thumbnail?.show(member, cell, member && locate(this.state.wall, member.id)),
          announce: (words) => setText(need(document, "[data-wall-words]"), words),
        })
      : null;
    this.selection = new Selection({
      get: () => this.state,
      set: (next) => {
        this.state = next;
        this.schedule();
      },
      watch: (id) => this.socket.watch(id),
      settled: () => this.#settled(),
    });
    this.socket = new LiveSocket(`/ws/runs/${state.run.slug}/`, {
      cursor: () => `after=${this.state.seq}&rebuilds=${this.state.rebuilds}`,
      onFrame: (frame) => this.#receive(frame),
      onStatus: (status) => {
        this.connection = status;
        this.#showConnection();
      },
    });
    if (this.live) this.#listen();
    this.schedule();
  }

  /** Redraw in the next animation frame. */
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    window.requestAnimationFrame(() => {
      this.scheduled = false;
      this.#show();
    });
  }

  /** @param {import("./socket.js").Frame} frame */
  #receive(frame) {
    switch (frame.type) {
      case "hello":
        this.slow = frame.live === "poll";
        this.#changeState(frame.state);
        break;
      case "events":
        if (!this.resyncing) this.#apply(frame.events); // otherwise the snapshot contains them, or they are sent again after it
        break;
      case "tokens":
        if (!this.reel.current && this.state.stage?.id === frame.trajectory)
          this.player?.typing(frame.turn, frame.text);
        break;
      case "progress":
        this.progress.noteReport(frame.phase);
        break;
      case "resync":
        void this.#resync();
        break;
      default:
    }
    this.schedule();
  }

  /** @param {import("../types.js").Event[]} events */
  #apply(events) {
    const fresh = events.filter((event) => event.seq > this.state.seq);
    document.dispatchEvent(new CustomEvent("runevents", { detail: fresh }));
    for (const event of fresh) {
      if (event.seq <= this.state.seq) continue;
      this.selection.note(event);
      if (event.type === "phase") this.progress.noteEvent(event);
      if (event.type === "run_started") this.progress.clear();
      this.state = reduce(this.state, event);
    }
  }

  async #resync() {
    this.resyncing = true;
    const snapshot = await fetchJson(`/runs/${this.state.run.slug}/snapshot.json`);
    if (!snapshot) {
      window.setTimeout(() => void this.#resync(), RESYNC_DELAY * (1 + Math.random()));
      return;
    }
    this.state = snapshot;
    this.resyncing = false;
    this.progress.clear();
    document.dispatchEvent(new CustomEvent("runreloaded", { detail: snapshot }));
    this.selection.follow();
    this.socket.restart();
    this.schedule();
  }

  /** @param {string} next */
  #changeState(next) {
    if (!next || next === this.state.state) return;
    this.state = { ...this.state, state: next };
    // the server renders the outcome and the next steps
    if (next === "failed" || next === "finished" || next === "stopped")
      window.setTimeout(() => location.reload(), RELOAD_DELAY);
  }

  #settled() {
    const { player } = this;
    return !player || player.index >= player.positions.length - 1 || !(player.following || player.playing);
  }

  /** Whether the stage stands at the end of an attempt that was played there. */
  #shownToEnd() {
    const { player } = this;
    return !player || (!player.playing && player.index >= player.positions.length - 1);
  }

  /** The trajectory on the stage: of the reel, or else the one that is followed or pinned. */
  #shown() {
    return this.reel.current?.trajectory ?? this.state.stage;
  }

  /** The user takes over the attempt that the reel shows. */
  #hold() {
    if (!this.reel.current) return;
    this.selection.hold(this.reel.current.trajectory);
    this.reel.stop();
    this.schedule();
  }

  #show() {
    const state = { ...this.state, phase: this.progress.newest(this.state.phase) };
    showHeader(this.root, state, this.drawn);
    this.#showConnection();
    if (this.live) {
      if (this.reel.current) this.selection.rest(); // the next rollout is followed at once
      this.selection.tick();
      const reels = this.selection.mode === "follow" && !this.selection.pending && this.connection === "live";
      this.reel.tick(reels ? reelIteration(this.state) : null);
      this.#showWall(this.connection === "live" ? this.progress.learning(state) : new Set());
      this.#showStage();
      this.#showCurves();
      showEchoTrap(this.state, this.drawn);
      if (state.training_use !== this.drawn.training_use)
        showTrainingUse(need(document, "[data-training-use]"), state.training_use);
    }
    this.drawn = { ...this.state, phase: state.phase };
  }

  #showConnection() {
    showConnection(this.root, this.state, this);
  }

  /** @param {Set<number>} learning groups that the update computes now */
  #showWall(learning) {
    const { state, drawn, limits } = this;
    const picked = this.#shown()?.id ?? null;
    const key = `${picked} ${[...learning].join(" ")}`;
    if (state.wall === drawn.wall && key === this.learning && state.run === drawn.run) return;
    this.learning = key;
    const evaluation = state.wall?.split === "eval";
    const lastGroup = Math.max(-1, ...(state.wall?.groups ?? []).map((group) => group.group));
    const widest = Math.max(1, ...(state.wall?.groups ?? []).map((group) => group.members.length));
    const size = evaluation || !limits.size ? widest : limits.size; // other trainers' runs have no planned size
    const groups = Math.max(evaluation ? (state.phase?.total ?? 0) : limits.groups, lastGroup + 1);
    const noun = this.#noun;
    if (this.grid) this.grid.noun = noun;
    this.grid?.show(state.wall, { groups: Math.min(groups, MAX_GROUPS), size, turns: limits.turns, picked, learning });
    setText(need(document, "[data-wall-title]"), evaluation ? "Evaluation" : "Attempts");
    setText(
      need(document, "[data-wall-shape]"),
      evaluation ? plural(groups, state.run.recorded ? noun : `fixed ${noun}`) : `${plural(groups, noun)} × ${size}`,
    );
    need(document, "[data-wall-note]").classList.toggle("unused", evaluation); // no bars
  }

  #showStage() {
    const { player } = this;
    if (!player) return;
    const staged = this.#shown();
    const trajectory = staged && this.verdicts.join(staged);
    need(document, "[data-stage-empty]").hidden = trajectory !== null;
    need(document, "[data-stage] [data-player]").hidden = trajectory === null;
    this.#showFollow();
    if (!trajectory) {
      this.staged = "";
      return;
    }
    if (trajectory.id === this.staged) player.update(trajectory);
    else this.#stage(player, trajectory);
    const link = need(document, "[data-open]");
    link.hidden = !trajectory.slug;
    if (trajectory.slug && link.getAttribute("href") !== `/t/${trajectory.slug}`)
      link.setAttribute("href", `/t/${trajectory.slug}`);
    showOutcome(need(document, "[data-outcome]"), trajectory, isOver(trajectory));
    showStageNote({
      reel: this.reel.current,
      over: isOver(trajectory),
      pinned: this.selection.mode === "pinned",
      running: this.connection === "live" && (this.state.state === "running" || this.state.state.endsWith("ing")),
    });
  }

  #showFollow() {
    const following = this.selection.mode === "follow";
    const button = need(document, "[data-follow]");
    button.hidden = hasEnded(this.state) || ["paused", "queued"].includes(this.state.state); // nothing to be followed
    button.setAttribute("aria-pressed", String(following));
  }

  /** @param {Player} player @param {Trajectory} trajectory */
  #stage(player, trajectory) {
    this.staged = trajectory.id;
    const over = isOver(trajectory);
    const still = this.reducedMotion.matches;
    player.load(trajectory, {
      follow: !over,
      at: (positions) =>
        this.reel.current && still ? Math.max(lostIndex(trajectory, positions), 0) || positions.length - 1 : 0,
    });
    if (over && this.selection.mode === "follow" && this.state.state === "running" && !still) player.play();
    setText(need(document, "[data-stage-title]"), this.#titleOf(trajectory));
    if (!this.reel.current) this.socket.watch(trajectory.id);
  }

  /** What the page calls an initial state; as Run.task_noun. */
  get #noun() {
    return this.state.run.recorded ? "task" : "puzzle";
  }

  /** "Puzzle 15 · attempt 6", or the puzzle of an evaluation. @param {Trajectory} trajectory */
  #titleOf({ id, group, member }) {
    const { wall } = this.state;
    const split = this.reel.current?.highlight.split ?? (locate(wall, id) ? wall?.split : "train");
    const puzzle = `${this.#noun} ${ordinal(group)}`;
    return split === "eval"
      ? `Evaluation ${puzzle}`
      : `${puzzle[0].toUpperCase()}${puzzle.slice(1)} · attempt ${ordinal(member)}`;
  }

  #showCurves() {
    const { state, drawn, charts } = this;
    if (
      !charts ||
      (state.curves === drawn.curves &&
        state.evaluations === drawn.evaluations &&
        state.alarms === drawn.alarms &&
        state.changes === drawn.changes &&
        state.state === drawn.state)
    )
      return;
    const bands = alarmBands(state.alarms);
    const points = (/** @type {string} */ name) => onIterations(state.curves[name] ?? []);
    const newest = Math.max(
      1,
      ...Object.values(state.curves).map((curve) => curve[curve.length - 1]?.[0] ?? 0),
      ...state.evaluations.map(({ iteration }) => iteration),
    );
    const first = Math.min(
      0,
      ...Object.values(state.curves).map((curve) => curve[0]?.[0] ?? 0),
      ...state.evaluations.map(({ iteration }) => iteration),
    );
    if (first < 0) bands.unshift({ state: "warmup", from: first, to: 0 });
    for (const chart of Object.values(charts)) {
      chart.marks = { bands, checkpoints: [], changes: state.changes };
      chart.range = { low: first, high: newest }; // the same for all, which stand in one row or column
    }
    charts.success.show([
      { label: "While training", color: this.color, points: points("success/rate") },
      evaluationLine(state.evaluations, state.evaluations[0]?.suite ?? ""),
    ]);
    charts.reward.show([
      { label: "Mean reward", color: this.color, points: points("reward/mean") },
      { label: "Spread within groups", color: "--soft", points: points("reward/in_group_std") },
    ]);
    charts.entropy.show([{ label: "Entropy", color: this.color, points: points("entropy/mean") }]);
    charts.gradient.show([{ label: "Gradient norm", color: "--soft", points: points("policy/grad_norm") }]);
    charts.imitation.show([
      { label: "Imitation loss", color: this.color, points: points("sft/loss") },
      { label: "On held-out demonstrations", color: "--soft", points: points("sft/heldout_loss") },
    ]);
    for (const [name, chart] of Object.entries(charts)) {
      chart.root.hidden = !chart.lines.length && (name === "imitation" || (state.run.recorded && hasEnded(state)));
    }
  }

  /** @param {Member} member */
  #pick(member) {
    this.reel.stop();
    if (member.slug) void this.selection.pin(member.slug, member.id).then(() => this.schedule());
  }

  /** Pin the previous or next trajectory of the group, or of the suite's prompts. @param {1|-1} way */
  #pickNeighbour(way) {
    const { wall } = this.state;
    const stage = this.#shown();
    const at = stage ? locate(wall, stage.id) : null;
    if (!at || !wall) return;
    const group = wall.groups[at.row].members;
    const single = group.length === 1;
    const members = single ? wall.groups.map((other) => other.members[0]) : group;
    this.#pick(members[((single ? at.row : at.member) + way + members.length) % members.length]);
  }

  #follow() {
    this.selection.follow();
    this.schedule();
  }

  #listen() {
    need(document, "[data-follow]").addEventListener("click", () => this.#follow());
    need(document, "[data-reel-next]").addEventListener("click", () => this.reel.advance());
    onKey((key) => this.#key(key));
    window.setInterval(() => this.schedule(), STAGE_INTERVAL); // advances the stage even when no frame arrives
  }

  /** @param {string} key @returns {boolean} whether the key was handled */
  #key(key) {
    const { player } = this;
    const trajectory = this.#shown();
    switch (key) {
      case "[":
        this.#pickNeighbour(-1);
        return true;
      case "]":
        this.#pickNeighbour(1);
        return true;
      case "f":
        this.#follow();
        return true;
      case "h":
        if (this.reel.current) this.reel.advance();
        else this.#follow();
        return true;
      default:
    }
    if (!player || !trajectory) return false;
    if (key === "c" && trajectory.slug) {
      void copy(
        `${location.origin}/t/${trajectory.slug}${toAddress(player.positions[player.index])}`,
        "Permalink copied",
      );
      return true;
    }
    if (key === "G" && this.state.wall) {
      const { iteration, split } = this.reel.current?.highlight ?? this.state.wall;
      location.href = `/runs/${this.state.run.slug}/trajectories?iteration=${iteration}&group_number=${trajectory.group + 1}&split=${split}`;
      return true;
    }
    return player.key(key);
  }
}

/** Charts of the live tab. */
function liveCharts() {
  return {
    success: new Chart(need(document, "[data-chart=success]"), { format: percent, share: true }),
    reward: new Chart(need(document, "[data-chart=reward]"), { format: (value) => number(value) }),
    entropy: new Chart(need(document, "[data-chart=entropy]")),
    gradient: new Chart(need(document, "[data-chart=gradient]")),
    imitation: new Chart(need(document, "[data-chart=imitation]")),
  };
}

/** @param {Trajectory} trajectory */
function isOver(trajectory) {
  return Boolean(trajectory.end) || (trajectory.success !== null && trajectory.success !== undefined);
}

new LivePage(need(document, "[data-run]"), JSON.parse(document.getElementById("snapshot")?.textContent ?? "null"));
document.documentElement.classList.add("ready");
