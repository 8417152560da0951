// @ts-check
/** The live page of a run: takes frames, keeps the state through the reducer, and tells each part what to show. */

import { BoardView } from "../board/board.js";
import { Chart, evaluationLine, onIterations } from "../curves/chart.js";
import { answer } from "../ui/fetch_json.js";
import { copy, onKey, openHelp } from "../ui/shortcuts.js";
import { Player } from "../player/player.js";
import { locate, reduce } from "./reducer.js";
import { LiveSocket } from "./socket.js";
import { Stage } from "./selection.js";
import { steps, toAddress } from "../player/positions.js";
import { html, need, setText } from "../ui/dom.js";
import { bandsOf, showTrap } from "./echo_trap.js";
import { WallView } from "./rollout_grid.js";
import { STATES, memberWords, number, outcome, paceWords, percent, phaseWords, place, progress, signed } from "../ui/formatting.js";

/** @typedef {import("./types.js").Snapshot} Snapshot */
/** @typedef {import("./types.js").Trajectory} Trajectory */
/** @typedef {import("./types.js").Member} Member */

const root = need(document, "[data-run]");
/** @type {Snapshot} */
let state = JSON.parse(document.getElementById("snapshot")?.textContent ?? "null");
const limits = { turns: Number(root.dataset.turns), groups: Number(root.dataset.groups), size: Number(root.dataset.size) };
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
let drawn = /** @type {Partial<Snapshot>} */ ({});
let shown = "";
let scheduled = false;
let connection = /** @type {"live"|"connecting"|"refused"} */ ("connecting");
let slow = false;
let resyncing = false;

const live = document.querySelector("[data-stage]");
const player = live ? new Player(need(document, "[data-stage] [data-player]")) : null;
const stage = new Stage({
  get: () => state,
  set: (next) => {
    state = next;
    schedule();
  },
  watch: (id) => socket.watch(id),
  settled: () => !player || player.index >= player.steps.length - 1 || !(player.following || player.playing),
});
const wall = live ? new WallView(need(document, "[data-wall]"), {
  onPick: (member) => pick(member),
  onHover: (member, cell) => hover(member, cell),
  say: (words) => setText(need(document, "[data-wall-words]"), words),
}) : null;
const share = { format: percent, share: true };
const charts = live ? {
  success: new Chart(need(document, "[data-chart=success]"), share),
  reward: new Chart(need(document, "[data-chart=reward]"), { format: (value) => number(value) }),
  entropy: new Chart(need(document, "[data-chart=entropy]")),
  gradient: new Chart(need(document, "[data-chart=gradient]")),
} : null;

const socket = new LiveSocket(`/ws/runs/${state.run.slug}/`, {
  cursor: () => state.seq,
  onFrame: take,
  onStatus: (status) => {
    connection = status;
    showConnection();
  },
});

/** @param {import("./socket.js").Frame} frame */
function take(frame) {
  switch (frame.type) {
    case "hello":
      slow = frame.live === "poll";
      changeState(frame.state);
      break;
    case "events":
      if (resyncing) break; // the snapshot on its way knows them, or they are asked for after it
      document.dispatchEvent(new CustomEvent("runevents", { detail: frame.events.filter((/** @type {any} */ event) => event.seq > state.seq) }));
      for (const event of frame.events) {
        if (event.seq <= state.seq) continue;
        stage.note(event);
        state = reduce(state, event);
      }
      break;
    case "tokens":
      if (player && state.stage?.id === frame.trajectory) player.typing(frame.turn, frame.text);
      break;
    case "resync":
      void resync();
      break;
    default:
  }
  schedule();
}

async function resync() {
  resyncing = true;
  const snapshot = await answer(`/runs/${state.run.slug}/snapshot.json`);
  if (!snapshot) {
    window.setTimeout(resync, 2000 + 2000 * Math.random());
    return;
  }
  state = snapshot;
  resyncing = false;
  document.dispatchEvent(new CustomEvent("runreloaded"));
  stage.follow();
  socket.restart();
  schedule();
}

/** @param {string} next */
function changeState(next) {
  if (!next || next === state.state) return;
  const reload = next === "failed" || next === "finished";
  state = { ...state, state: next };
  if (reload) window.setTimeout(() => location.reload(), 1200); // the server tells what happened and what to do
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  window.requestAnimationFrame(() => {
    scheduled = false;
    show();
  });
}

function show() {
  showHeader();
  if (live) {
    showWall();
    showStage();
    showFinished();
    showCurves();
    showTrap(state, drawn);
  }
  drawn = state;
}

function showHeader() {
  if (state.state !== drawn.state) {
    const word = need(root, "[data-state]");
    word.dataset.state = state.state;
    setText(word, STATES[state.state] ?? state.state);
    for (const button of root.querySelectorAll("[data-when]")) {
      /** @type {HTMLElement} */ (button).hidden = !(button.getAttribute("data-when") ?? "").split(" ").includes(state.state);
    }
  }
  const running = state.state === "running" || state.state === "starting" || state.state.endsWith("ing");
  if (running) setText(need(root, "[data-phase]"), phaseWords(state.phase, state.run.iterations));
  setText(need(root, "[data-pace]"), paceWords(state.phase, state.run.device, state.state));
  const bar = /** @type {HTMLProgressElement} */ (root.querySelector("[data-progress]"));
  bar.value = progress(state.phase, state.run.iterations, state.state);
  showConnection();
}

function showConnection() {
  const note = need(root, "[data-connection]");
  const ended = ["finished", "failed", "cancelled", "stopped"].includes(state?.state);
  note.hidden = (connection === "live" && !slow) || ended;
  const words = { live: "Updates come every few seconds: the message service is away.", refused: "Live updates were refused: log in again.", connecting: "Reconnecting … nothing is lost." };
  setText(note, words[connection]);
}

function showWall() {
  if (state.wall === drawn.wall && state.stage?.id === drawn.stage?.id && state.run === drawn.run) return;
  const evaluation = state.wall?.split === "eval";
  const size = evaluation ? Math.max(1, ...(state.wall?.groups ?? []).map((group) => group.members.length)) : limits.size;
  const groups = evaluation ? Math.max(state.phase?.total ?? 0, lastGroup() + 1) : Math.max(limits.groups, lastGroup() + 1);
  wall?.show(state.wall, { groups: Math.min(groups, 4096), size, turns: limits.turns, picked: state.stage?.id ?? null });
  setText(need(document, "[data-wall-title]"), evaluation ? "Evaluation" : "Rollouts");
  setText(need(document, "[data-wall-shape]"), evaluation ? `${groups} fixed prompts` : `${groups} initial states × ${size}`);
}

function lastGroup() {
  return Math.max(-1, ...(state.wall?.groups ?? []).map((group) => group.group));
}

function showStage() {
  if (!player) return;
  stage.tick();
  const trajectory = state.stage;
  need(document, "[data-stage-empty]").hidden = trajectory !== null;
  need(document, "[data-stage] [data-player]").hidden = trajectory === null;
  const follow = need(document, "[data-follow]");
  follow.setAttribute("aria-pressed", String(stage.mode === "follow"));
  if (!trajectory) {
    shown = "";
    return;
  }
  if (trajectory.id !== shown) {
    shown = trajectory.id;
    const over = trajectory.success !== null && trajectory.success !== undefined;
    player.load(trajectory, { follow: !over });
    if (over && stage.mode === "follow" && state.state === "running" && !calm.matches) player.play();
    setText(need(document, "[data-stage-title]"), `Group ${trajectory.group} · trajectory ${trajectory.member}`);
    socket.watch(trajectory.id);
  } else player.update(trajectory);
  const link = need(document, "[data-open]");
  link.hidden = !trajectory.slug;
  if (trajectory.slug && link.getAttribute("href") !== `/t/${trajectory.slug}`) link.setAttribute("href", `/t/${trajectory.slug}`);
  const actions = trajectory.turns.flatMap((turn) => turn.actions).filter((action) => action.status === "executed").length;
  const over = trajectory.success !== null && trajectory.success !== undefined;
  const words = outcome({ ...trajectory, turns: trajectory.turns.length, actions });
  const told = need(document, "[data-outcome]");
  setText(told, over ? words.charAt(0).toUpperCase() + words.slice(1) + ` · ${signed(trajectory.total_reward ?? 0)}` : "Playing");
  told.className = over ? (trajectory.success ? "outcome good" : "outcome bad") : "outcome soft";
}

function showFinished() {
  if (state.finished === drawn.finished) return;
  const list = need(document, "[data-finished]");
  list.replaceChildren(...state.finished.map((result) => html("li", {}, [
    html("a", { href: result.slug ? `/t/${result.slug}` : null, class: result.success ? "won" : "lost" }, [
      html("span", { class: "where number" }, [place(result.group, result.member)]),
      html("span", { class: "what" }, [outcome(result)]),
      html("span", { class: "reward number" }, [signed(result.total_reward)]),
    ]),
  ])));
}

function showCurves() {
  if (!charts || (state.curves === drawn.curves && state.evaluations === drawn.evaluations && state.alarms === drawn.alarms)) return;
  const bands = bandsOf(state.alarms);
  for (const chart of Object.values(charts)) chart.marks = { bands, checkpoints: [] };
  const points = (/** @type {string} */ name) => onIterations(state.curves[name] ?? []);
  const suite = state.evaluations[0]?.suite ?? "";
  charts.success.show([
    { label: "While training", color: "--accent", points: points("success/rate") },
    evaluationLine(state.evaluations, suite),
  ]);
  charts.reward.show([
    { label: "Mean reward", color: "--accent", points: points("reward/mean") },
    { label: "Spread within groups", color: "--warn", points: points("reward/in_group_std") },
  ]);
  charts.entropy.show([{ label: "Entropy", color: "--accent", points: points("entropy/mean") }]);
  charts.gradient.show([{ label: "Gradient norm", color: "--soft", points: points("policy/grad_norm") }]);
}

/** @param {Member} member */
function pick(member) {
  if (member.slug) void stage.pin(member.slug, member.id).then(schedule);
}

/** A board under the pointer. Few are kept: a reader looks around one group at a time. */
const seen = /** @type {Map<string, {key: string, data: Trajectory}>} */ (new Map());
let hoverTimer = 0;
const thumbnail = live ? new BoardView(need(document, "[data-thumbnail] .board")) : null;

/** @param {Member|null} member @param {Element|null} cell */
function hover(member, cell) {
  window.clearTimeout(hoverTimer);
  const popover = need(document, "[data-thumbnail]");
  if (!member?.slug || !cell) {
    popover.hidden = true;
    return;
  }
  hoverTimer = window.setTimeout(async () => {
    const key = `${member.turns} ${member.status}`;
    let known = seen.get(member.id);
    if (known?.key !== key) {
      const data = await answer(`/t/${member.slug}.json`);
      if (!data) return;
      known = { key, data };
      seen.set(member.id, known);
      if (seen.size > 16) seen.delete(/** @type {string} */ (seen.keys().next().value));
    }
    const positions = steps(known.data);
    thumbnail?.show(positions[positions.length - 1].board);
    const at = locate(state.wall, member.id);
    setText(need(popover, "p"), `${at ? place(at.group, at.member) + ": " : ""}${memberWords(member)}`);
    const box = cell.getBoundingClientRect();
    popover.style.left = `${Math.min(box.right + 10, window.innerWidth - 190)}px`;
    popover.style.top = `${Math.max(8, Math.min(box.top - 40, window.innerHeight - 220))}px`;
    popover.hidden = false;
  }, 140);
}

/** @param {1|-1} way */
function neighbour(way) {
  const at = state.stage ? locate(state.wall, state.stage.id) : null;
  if (!at || !state.wall) return true;
  const group = state.wall.groups[at.row].members;
  const alone = group.length === 1; // the fixed prompts: from one to the next
  const members = alone ? state.wall.groups.map((other) => other.members[0]) : group;
  pick(members[((alone ? at.row : at.member) + way + members.length) % members.length]);
  return true;
}

if (live && player) {
  need(document, "[data-follow]").addEventListener("click", () => {
    stage.follow();
    schedule();
  });
  onKey((key) => {
    const trajectory = state.stage;
    if (key === "[") return neighbour(-1);
    if (key === "]") return neighbour(1);
    if (key === "f") {
      stage.follow();
      schedule();
      return true;
    }
    if (key === "c" && trajectory?.slug) {
      void copy(`${location.origin}/t/${trajectory.slug}${toAddress(player.steps[player.index])}`, "Permalink copied");
      return true;
    }
    if (key === "g" && trajectory && state.wall) {
      location.href = `/runs/${state.run.slug}/trajectories?iteration=${state.wall.iteration}&group=${trajectory.group}&split=${state.wall.split}`;
      return true;
    }
    if (key === "?") {
      openHelp();
      return true;
    }
    return trajectory ? player.key(key) : false;
  });
  window.setInterval(schedule, 500); // lets a seen-to-the-end trajectory give way even when nothing arrives
}
schedule();
document.documentElement.classList.add("ready");
