// @ts-check
/**
 * Texts of a turn of another trainer's run: the response beside its thought and calls, further fields. Mirrors
 * webapp/trajectories/turn_text.py.
 */

/** @typedef {import("../types.js").Turn} Turn */

/**
 * The whole response without its thought, lines that are the text of a call, and a response that is the name of the only
 * action: the turn shows these elsewhere. White space within the text is kept.
 * @param {Pick<Turn, "response"|"thought"|"actions">} turn
 */
export function responseText({ response, thought, actions }) {
  let text = response;
  const at = thought ? text.indexOf(thought) : -1;
  if (at >= 0) text = text.slice(0, at).replace(/<think>\s*$/, "") + text.slice(at + thought.length).replace(/^\s*<\/think>/, "");
  for (const action of actions) {
    if (action.call) text = `\n${text}\n`.replace(`\n${action.text}\n`, "\n").slice(1, -1);
  }
  text = text.replace(/^[\r\n]+|[\r\n]+$/g, "");
  const only = actions.length === 1 ? actions[0] : null;
  return only && [only.text, only.name].includes(text.trim()) ? "" : text;
}

/** Characters of further fields that a page shows; as in webapp/trajectories/turn_text.py. */
const MAX_EXTRA = 8000;

/**
 * Further fields that a recorder added to a turn, as indented JSON; empty without any. Tool calls that the actions show are
 * left out.
 * @param {Record<string, unknown>|null|undefined} extra
 * @param {import("../types.js").ActionRecord[]} actions
 */
export function extraText(extra, actions) {
  const shown = actions.some((record) => record.call);
  const fields = Object.entries(extra ?? {}).filter(([name]) => !shown || name !== "tool_calls");
  if (!fields.length) return "";
  const characters = [...JSON.stringify(Object.fromEntries(fields), null, 2)];
  if (characters.length <= MAX_EXTRA) return characters.join("");
  return `${characters.slice(0, MAX_EXTRA).join("")}…\n${(characters.length - MAX_EXTRA).toLocaleString("en")} more characters are in the export.`;
}
