// @ts-check
/**
 * One dialogue turn as a list item, with the markup of templates/trajectories/_turn.html.
 */

import { claimFacts, renderThought } from "./claims.js";
import { renderImages } from "../board/observation_images.js";
import { html } from "../ui/dom.js";
import { extraText, foldedParts, responseText } from "../ui/turn_text.js";
import { callText, number, plural, signed } from "../ui/formatting.js";

/** @typedef {import("../types.js").Turn} Turn */
/** @typedef {import("../types.js").ActionRecord} ActionRecord */
/** @typedef {import("../types.js").Mark} Mark */

const STATUS = {
  executed: "executed",
  ignored: "ignored: beyond a budget or after the end",
  illegal: "illegal: no such action",
};

/**
 * @param {Turn} turn
 * @param {{lost: number, marks: Mark[], images: string, recorded: boolean, slug: string}} options lost: index of the
 *   action after which the puzzle is unsolvable, or −1; marks: the turn's mistakes; images: address of its images, up
 *   to their hash; recorded: of another trainer's run, whose responses have no format of ours; slug: of the trajectory,
 *   "" on shared pages
 * @returns {HTMLElement}
 */
export function renderTurn(turn, { lost, marks, images, recorded, slug }) {
  return html("li", { class: "turn", "data-turn": turn.turn, "aria-label": `Turn ${turn.turn + 1}` }, [
    html("div", { class: "turn-head" }, [
      html("a", { class: "turn-number", href: `?turn=${turn.turn + 1}`, "data-step": "-1" }, [`Turn ${turn.turn + 1}`]),
      ...(Object.keys(turn.terms).length ? [html("span", { class: "turn-reward number" }, [signed(turn.reward)])] : []),
    ]),
    ...renderImages(turn, images),
    html("details", { class: "turn-state" }, [
      html("summary", {}, ["State"]),
      html("pre", {}, [turn.state]),
      ...(slug && !recorded
        ? [
            html("p", {}, [
              html("a", { href: `/t/${slug}/input/${turn.turn + 1}`, target: "_top" }, ["Full input of the policy"]),
            ]),
          ]
        : []),
    ]),
    ...(recorded ? recordedText(turn) : words(turn)),
    ...renderProblem(turn, recorded),
    ...(turn.actions.length || !recorded
      ? [
          html(
            "div",
            { class: "chips" },
            turn.actions.length
              ? turn.actions.map((record, index) =>
                  chip(
                    turn,
                    record,
                    index,
                    lost,
                    marks.find((mark) => mark.action === index),
                    recorded,
                  ),
                )
              : [
                  html("span", { class: "soft small" }, [
                    turn.answer ? `The answer “${turn.answer}” contains no action.` : "No answer.",
                  ]),
                ],
          ),
        ]
      : []),
    ...renderCalls(turn.actions),
    ...(recorded ? [] : renderFolded(turn)),
    ...renderMore(turn),
    html("p", { class: "turn-facts soft small number" }, [facts(turn, recorded)]),
  ]);
}

/** The thought, or the response that has none of the format. @param {Turn} turn */
function words(turn) {
  const thought = turn.thought || (turn.format_valid === false ? turn.response : "");
  return [
    html(
      "p",
      { class: thought ? "thought" : "thought none" },
      turn.thought ? renderThought(turn) : [thought || "No thought."],
    ),
  ];
}

/** Thought and response of another trainer's policy, each where there is one. @param {Turn} turn */
function recordedText(turn) {
  const text = responseText(turn);
  const empty = !turn.response && !turn.thought && !turn.actions.length;
  return [
    ...(turn.thought ? [html("p", { class: "thought" }, renderThought(turn))] : []),
    ...(text ? [html("p", { class: "response-text" }, tagged(text))] : []),
    ...(empty ? [html("p", { class: "thought none" }, ["The response is empty."])] : []),
  ];
}

const TAG = /(<\/?(?:think|thinking|reasoning|answer|tool_call|tool_response)>)/;

/**
 * A response with its tags set apart, and what is thought in the typeface of thoughts. The text is unchanged.
 * @param {string} text
 */
function tagged(text) {
  let thinking = false;
  return text
    .split(TAG)
    .filter(Boolean)
    .map((part) => {
      if (!TAG.test(part)) return thinking ? html("span", { class: "thinking" }, [part]) : part;
      thinking = /^<(?:think|thinking|reasoning)>/.test(part);
      return html("span", { class: "tag-mark" }, [part]);
    });
}

/** @param {Turn} turn @param {boolean} recorded */
function renderProblem(turn, recorded) {
  const problem = turn.problem || (recorded && turn.format_valid === false ? "not valid" : "");
  const label = turn.format_valid === false ? "Format: " : "Answer: "; // an action that does not exist need not break the format
  return problem ? [html("p", { class: "problem" }, [html("b", {}, [label]), problem])] : [];
}

/** The rest of the response, as written. @param {Turn} turn */
function renderFolded(turn) {
  return foldedParts(turn).map(({ text, label }) =>
    html("details", { class: "turn-state turn-rest" }, [html("summary", {}, [label]), html("pre", {}, [text])]),
  );
}

/** Further fields of a turn, folded. @param {Turn} turn */
function renderMore(turn) {
  const text = extraText(turn.extra, turn.actions);
  return text
    ? [html("details", { class: "turn-state" }, [html("summary", {}, ["More"]), html("pre", {}, [text])])]
    : [];
}

/**
 * @param {Turn} turn
 * @param {ActionRecord} record
 * @param {number} index
 * @param {number} lost
 * @param {Mark|undefined} mistake
 * @param {boolean} recorded
 */
function chip(turn, record, index, lost, mistake, recorded) {
  const name = record.call ? record.call.tool || callText(record.call) : (record.name ?? record.text);
  const title = [
    STATUS[record.status],
    record.call?.failed ? "the call failed" : record.status === "executed" && !record.effective ? "nothing moved" : "",
    record.actual ? `slipped: went ${record.actual}` : "",
    mistake ? `${mistake.kind}: ${mistake.sentence.replace(/^Turn [^:]*: /, "")}` : "",
    index === lost && !mistake ? "from here nothing can be won" : "",
    record.status === "executed" && (record.reward || !recorded) ? `reward ${signed(record.reward ?? 0)}` : "",
  ]
    .filter(Boolean)
    .join("; ");
  const marks =
    record.status === "illegal"
      ? "✗"
      : record.status === "ignored"
        ? "–"
        : mistake
          ? mistake.glyph
          : index === lost
            ? "!"
            : record.actual
              ? "↝"
              : record.call?.failed
                ? "✗"
                : !record.effective
                  ? "·"
                  : "";
  return html(
    "a",
    {
      class: `chip ${record.status}${mistake ? ` ${mistake.kind}` : index === lost ? " lost" : ""}${record.status === "executed" && !record.effective ? " idle" : ""}`,
      href: `?turn=${turn.turn + 1}&action=${index + 1}`,
      "data-step": index,
      title,
    },
    [
      name,
      ...(marks ? [html("span", { class: "mark", "aria-hidden": "true" }, [marks])] : []),
      html("span", { class: "visually-hidden" }, [`, ${title}`]),
    ],
  );
}

/**
 * The calls of tools of a turn: each with its result below, as in templates/trajectories/_calls.html.
 * @param {ActionRecord[]} actions
 * @returns {HTMLElement[]} nothing without any
 */
function renderCalls(actions) {
  const calls = actions.flatMap((record) => (record.call ? [record.call] : []));
  const items = calls.map((call) =>
    html("li", { class: call.failed ? "call failed" : "call" }, [
      html("code", { class: "call-text" }, [callText(call)]),
      ...(call.result ? [html("pre", { class: "call-result" }, [call.result])] : []),
    ]),
  );
  return items.length ? [html("ul", { class: "calls", "aria-label": "Calls" }, items)] : [];
}

/** Another trainer may have sent no number of tokens. @param {Turn} turn @param {boolean} recorded */
function facts(turn, recorded) {
  const terms = Object.entries(turn.terms);
  const reward = !terms.length
    ? ""
    : terms.length > 1
      ? `${signed(turn.reward)} = ${terms.map(([name, value]) => `${signed(value)} ${name}`).join(", ")}`
      : `reward ${signed(turn.reward)}`;
  const entropy = turn.entropy == null ? [] : [`entropy ${number(turn.entropy)} nats/token`];
  const length = turn.tokens || !recorded ? [plural(turn.tokens ?? 0, "token")] : [];
  return [
    reward,
    [...length, ...(turn.truncated ? ["truncated at the limit"] : [])].join(", "),
    ...entropy,
    claimFacts(turn),
  ]
    .filter(Boolean)
    .join(" · ");
}
