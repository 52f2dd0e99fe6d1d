// @ts-check
/** The table of scenes: contents of cells, filters and orders, without elements. */

import { quantity } from "l5kit/format";
import { SceneTags } from "l5kit/scene_tags";

/** @typedef {import("l5kit/source").SceneColumns} SceneColumns */
/**
 * @typedef {object} Field one column of the list
 * @property {string} key
 * @property {string} head short, for the header
 * @property {string} unit below the head; may be empty
 * @property {string} title the full name with its unit
 * @property {number} [digits] decimal places; numeric columns only
 */
/**
 * @typedef {object} Filter
 * @property {string} text contained in the host or in the scene number
 * @property {Set<string>} turns empty for all
 * @property {Set<string>} tags names; a scene must have all of them
 * @property {Record<string, {min: number | null, max: number | null}>} ranges by key of the field
 */

export const TURNS = ["left", "straight", "right", "standing"];

/** Tags that correspond to a turn. @type {Record<string, string>} */
export const TAG_OF_TURN = { left: "left_turn", right: "right_turn", standing: "standing" };

/** @type {Field[]} */
export const FIELDS = [
  { key: "scene", head: "Scene", unit: "", title: "Number of the scene", digits: 0 },
  { key: "length_s", head: "Length", unit: "s", title: "Length (s)", digits: 1 },
  { key: "num_frames", head: "Frames", unit: "", title: "Number of frames", digits: 0 },
  { key: "agents_per_frame", head: "Agents", unit: "a frame", title: "Agents a frame, mean", digits: 1 },
  { key: "distance_m", head: "Driven", unit: "m", title: "Distance driven by the AV (m)", digits: 0 },
  { key: "turn", head: "Turn", unit: "", title: "Turn of the AV over the scene" },
  { key: "speed_mps", head: "Speed", unit: "m/s", title: "Average speed of the AV (m/s)", digits: 1 },
];

/** Additional columns of a simulation. @type {Field[]} */
export const DRIVEN_FIELDS = [
  { key: "scene", head: "Scene", unit: "", title: "Number of the scene", digits: 0 },
  { key: "score", head: "Score", unit: "", title: "Score of the drive, 0 to 1", digits: 2 },
  { key: "failed", head: "Failed", unit: "", title: "Metrics that are not met" },
];

/** Return a filter that all scenes pass. @returns {Filter} */
export function emptyFilter() {
  return { text: "", turns: new Set(), tags: new Set(), ranges: {} };
}

/** All scenes of a dataset, by column. */
export class SceneTable {
  /** @param {SceneColumns} columns @param {number} numScenes */
  constructor(columns, numScenes) {
    this.columns = columns;
    this.numScenes = numScenes;
    this.isDriven = columns.score !== undefined;
    this.tags = new SceneTags();
    this.fields = this.isDriven ? DRIVEN_FIELDS : FIELDS;
    /** initial order: lowest score first */
    this.order = { key: this.isDriven ? "score" : "scene", descending: false };
    this.words = Array.from({ length: numScenes }, (_, scene) =>
      [columns.host?.[scene] ?? "", ...this.failures(scene)].join("\n").toLowerCase(),
    );
  }

  /** @param {number} scene @returns {string[]} failures of the drive, in few words */
  failures(scene) {
    return this.columns.failed?.[scene] ?? [];
  }

  /** @param {number} scene @returns {string | null} why the scene cannot be read; null if it can */
  error(scene) {
    return this.columns.error?.[scene] ?? null;
  }

  /** @param {number} scene @returns {string | null} defect of a readable scene */
  doubt(scene) {
    return this.columns.doubt?.[scene] ?? null;
  }

  /**
   * @param {number} scene
   * @param {string} key of a column
   * @returns {string | number | null} null if unknown
   */
  value(scene, key) {
    const columns = /** @type {Record<string, (string | number | null)[] | undefined>} */ (this.columns);
    return columns[key]?.[scene] ?? null;
  }

  /** @param {number} scene @param {string} key @returns {number} NaN if unknown */
  number(scene, key) {
    if (key === "scene") return scene;
    if (key === "failed") return this.columns.failed?.[scene]?.length ?? NaN;
    const value = this.value(scene, key);
    return typeof value === "number" ? value : NaN;
  }

  /** @param {number} scene @param {Field} field @returns {string} */
  cell(scene, field) {
    if (field.key === "failed") return this.failures(scene).join(", ");
    if (field.digits === undefined) return String(this.value(scene, field.key) ?? (this.doubt(scene) ? "damaged" : ""));
    return quantity(this.number(scene, field.key), field.digits);
  }

  /** @param {number} scene @returns {string} all values of a scene, for the tooltip */
  summary(scene) {
    const error = this.error(scene);
    const host = this.columns.host?.[scene];
    const lines = [`Scene ${scene}${host ? `, host ${host}` : ""}`];
    if (error) return [...lines, error].join("\n");
    const speed = this.number(scene, "speed_mps");
    lines.push(
      `${quantity(this.number(scene, "length_s"), 1, "s")}, ${quantity(this.number(scene, "num_frames"), 0)} frames`,
      `${quantity(this.number(scene, "agents_per_frame"), 1)} agents a frame`,
      `${quantity(this.number(scene, "distance_m"), 1, "m")} driven, ${quantity(speed, 2, "m/s")} on average`,
      `${this.columns.turn?.[scene] ?? ""} (${quantity(this.number(scene, "turn_deg"), 0)}\u00b0)`,
    );
    if (this.isDriven) {
      lines.push(`Scene ${this.value(scene, "log_scene") ?? "?"} of the log`);
      const failures = this.failures(scene).join(", ") || "nothing";
      lines.push(`Score ${quantity(this.number(scene, "score"), 3)}, failed: ${failures}`);
    }
    const tags = this.tags.of(scene).map(({ label }) => label);
    if (tags.length) lines.push(`Tags: ${tags.join(", ")}`);
    const doubt = this.doubt(scene);
    if (doubt) lines.push(`Damaged: ${doubt}`);
    return lines.join("\n");
  }

  /**
   * Return the scenes to list.
   * @param {Filter} filter
   * @param {{key: string, descending: boolean}} order scenes without a value are last
   * @returns {Uint32Array} scene numbers
   */
  listed(filter, order) {
    const scenes = new Uint32Array(this.numScenes);
    let length = 0;
    for (let scene = 0; scene < this.numScenes; scene += 1) {
      if (this.passes(scene, filter)) scenes[length++] = scene;
    }
    return this.sorted(scenes.subarray(0, length), order);
  }

  /** @param {number} scene @param {Filter} filter @returns {boolean} */
  passes(scene, { text, turns, tags, ranges }) {
    for (const name of tags) if (!this.tags.has(scene, name)) return false;
    if (turns.size && !turns.has(String(this.value(scene, "turn")))) return false;
    for (const [key, { min, max }] of Object.entries(ranges)) {
      const value = this.number(scene, key);
      if (min !== null && !(value >= min)) return false;
      if (max !== null && !(value <= max)) return false;
    }
    const wanted = text.trim().toLowerCase();
    if (!wanted || this.words[scene].includes(wanted) || String(scene).includes(wanted)) return true;
    return this.tags.words(scene).includes(wanted);
  }

  /** @param {Uint32Array} scenes @param {{key: string, descending: boolean}} order @returns {Uint32Array} */
  sorted(scenes, { key, descending }) {
    if (key === "scene") return descending ? scenes.reverse() : scenes;
    const rank = new Float64Array(this.numScenes);
    for (const scene of scenes) rank[scene] = this.rank(scene, key, descending ? -1 : 1);
    return scenes.sort((a, b) => (rank[a] < rank[b] ? -1 : rank[a] > rank[b] ? 1 : a - b));
  }

  /** @param {number} scene @param {string} key @param {number} sign @returns {number} infinity if unknown */
  rank(scene, key, sign) {
    const value = key === "turn" ? TURNS.indexOf(String(this.value(scene, "turn"))) : this.number(scene, key);
    if (Number.isNaN(value) || (key === "turn" && value < 0)) return Infinity;
    return sign * value;
  }
}
