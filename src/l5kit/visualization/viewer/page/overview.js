// @ts-check
/** The overview page of several planners: scenes in rows, planners in columns; a click plays a scene side by side. */

import { byId, elementById, make, onPress, setPressed, setText } from "l5kit/dom";
import { counted, messageOf, quantity } from "l5kit/format";
import { addressOf, differs, gainOf, sorted } from "l5kit/overview_model";
import { createTheme } from "l5kit/theme";

/** @typedef {import("l5kit/overview_model").OverviewFacts} OverviewFacts */
/** @typedef {import("l5kit/overview_model").OverviewScene} OverviewScene */

const table = elementById("overview-table", HTMLTableElement);
const message = byId("overview-message");
/** @type {import("l5kit/overview_model").Order} */
let order = { planner: null, falls: false };
let onlyDiffering = false;

createTheme(() => {});

/** @param {OverviewFacts} facts @returns {boolean} whether tags were requested */
const hasTags = (facts) => facts.scenes.some(({ tags }) => tags.length > 0);

/** @param {OverviewFacts} facts */
function showHeads(facts) {
  const heads = [headOf(facts, null, "scene", "")];
  facts.planners.forEach(({ name, mean, verdict }, planner) => {
    heads.push(headOf(facts, planner, name, `${mean}${planner === facts.reference ? ", reference" : ""}`, verdict));
  });
  if (hasTags(facts)) heads.push(make("th", { scope: "col", class: "texts" }, "tags"));
  table.tHead?.replaceChildren(make("tr", {}, ...heads));
}

/**
 * @param {OverviewFacts} facts
 * @param {number | null} planner null for the scene column
 * @param {string} name
 * @param {string} mean
 * @param {string} [verdict]
 * @returns {HTMLElement}
 */
function headOf(facts, planner, name, mean, verdict = "") {
  const does = planner === null ? "by number" : "what it wins most first, then what it loses most";
  const button = make("button", { type: "button", title: `Sort: ${does}` }, name, make("small", {}, mean || "\u00a0"));
  const head = make("th", { scope: "col", class: verdict, "data-testid": `head-${planner ?? "scene"}` }, button);
  if (order.planner === planner) head.setAttribute("aria-sort", order.falls ? "descending" : "ascending");
  onPress(button, () => {
    const isSame = order.planner === planner;
    order = { planner, falls: isSame ? !order.falls : planner !== null };
    show(facts);
  });
  return head;
}

/** @param {OverviewFacts} facts @param {OverviewScene} scene @returns {HTMLElement} */
function rowOf(facts, scene) {
  const cells = facts.planners.map(({ name }, planner) => {
    const gain = gainOf(facts, scene, planner);
    const tone = gain > 0 ? "better" : gain < 0 ? "worse" : "";
    const fails = scene.failures[planner] || "nothing fails";
    const title = `${name}: ${fails}. Click to play it beside another one.`;
    const value = quantity(scene.values[planner], facts.digits);
    return make("td", { class: tone }, make("a", { href: addressOf(facts, scene, planner), title }, value));
  });
  const row = make("tr", {}, make("th", { scope: "row" }, String(scene.scene)), ...cells);
  if (hasTags(facts)) row.append(make("td", { class: "texts" }, scene.tags.join(", ")));
  return row;
}

/** @param {OverviewFacts} facts */
function show(facts) {
  showHeads(facts);
  const scenes = sorted(facts, order).filter((scene) => !onlyDiffering || differs(facts, scene));
  table.tBodies[0].replaceChildren(...scenes.map((scene) => rowOf(facts, scene)));
  const { name } = facts.planners[facts.reference];
  setText(
    byId("overview-facts"),
    `${facts.label} of ${counted(scenes.length, "scene")}; blue is better than ${name}, orange worse; click a value to play it`,
  );
  message.hidden = scenes.length > 0;
  setText(message, "No planner differs from the reference in any scene.");
}

try {
  const answer = await fetch("api/overview");
  if (!answer.ok) throw new Error((await answer.json()).error);
  const facts = /** @type {OverviewFacts} */ (await answer.json());
  setText(byId("overview-title"), facts.planners.map(({ name }) => name).join(", "));
  const button = byId("differing");
  onPress(button, () => {
    onlyDiffering = !onlyDiffering;
    setPressed(button, onlyDiffering);
    show(facts);
  });
  show(facts);
} catch (error) {
  message.hidden = false;
  setText(message, `The comparison cannot be shown: ${messageOf(error)}`);
}
