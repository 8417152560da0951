// @ts-check
/** Board of the login page: a Sokoban puzzle solved in a loop. Only its first position where motion is not wanted. */

import { BoardView } from "../board/board.js";

/** The optimal solution of one room, position by position; rows separated by |. */
const POSITIONS = [
  "######|#    #|#.   #|#@$# #|#  # #|######",
  "######|#    #|#.   #|# $# #|#@ # #|######",
  "######|#    #|#.   #|# $# #|# @# #|######",
  "######|#    #|#.$  #|# @# #|#  # #|######",
  "######|#    #|#.$  #|#@ # #|#  # #|######",
  "######|#    #|#+$  #|#  # #|#  # #|######",
  "######|#@   #|#.$  #|#  # #|#  # #|######",
  "######|# @  #|#.$  #|#  # #|#  # #|######",
  "######|#  @ #|#.$  #|#  # #|#  # #|######",
  "######|#    #|#.$@ #|#  # #|#  # #|######",
  "######|#    #|#*@  #|#  # #|#  # #|######",
];
const STEP_MS = 620;
/** Steps for which the solved board stays. */
const PAUSE = 4;

const host = document.querySelector("[data-login-board]");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

if (host instanceof HTMLElement) {
  const view = new BoardView(host);
  /** @param {number} at */
  const show = (at) =>
    view.show({ kind: "grid", theme: "sokoban", rows: POSITIONS[at].split("|") }, { animate: at > 0 });
  let step = 0;
  show(0);
  setInterval(() => {
    if (calm.matches || document.hidden) return;
    step = (step + 1) % (POSITIONS.length + PAUSE);
    if (step < POSITIONS.length) show(step);
  }, STEP_MS);
}
