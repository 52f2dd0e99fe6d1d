// @ts-check
/** List of all agents of the frame, for selection by keyboard. */

import { make } from "l5kit/dom";
import { className, quantity } from "l5kit/format";
import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/scene_model").SceneModel} SceneModel */

/** A list box of the agents of one frame, filled only while it is open. */
export class AgentList {
  /** @param {HTMLElement} place @param {(track: number | null) => void} onSelect */
  constructor(place, onSelect) {
    /** @type {SceneModel | null} */
    this.scene = null;
    /** @type {number | null} */
    this.track = null;
    this.frame = 0;
    this.list = make("select", {
      size: 8,
      class: "agent-list",
      "aria-label": "Agents in this frame: track, class, speed",
      "data-testid": "agent-list",
    });
    this.summary = make("summary", {}, "Agents in this frame");
    this.details = make("details", { class: "agents", open: "" }, this.summary, this.list);
    this.list.addEventListener("change", () => onSelect(trackOf(this.list.value)));
    this.details.addEventListener("toggle", () => this.fill());
    place.append(this.details);
  }

  /** @param {SceneModel | null} scene */
  setScene(scene) {
    this.scene = scene;
    this.track = null;
  }

  /** @param {number | null} track */
  select(track) {
    this.track = track;
    this.list.value = track === null ? "" : String(track);
  }

  /** @param {number} frame */
  showFrame(frame) {
    this.frame = frame;
    this.fill();
  }

  fill() {
    const { scene } = this;
    if (!scene) {
      this.summary.textContent = "Agents in this frame";
      this.list.replaceChildren();
      return;
    }
    const [first, end] = scene.rowsIn(this.frame);
    this.summary.textContent = `Agents in this frame (${end - first})`;
    if (!this.details.open) return;
    const entries = [{ value: EGO_TRACK, text: entryText("AV", "", scene.arrays.ego_speed[this.frame]) }];
    for (let row = first; row < end; row += 1)
      entries.push({ value: scene.arrays.agent_track[row], text: agentText(scene, row) });
    while (this.list.options.length > entries.length) this.list.lastElementChild?.remove();
    entries.forEach(({ value, text }, at) => {
      const option = this.list.options[at] ?? this.list.appendChild(make("option"));
      if (option.textContent !== text) option.textContent = text;
      option.value = String(value);
    });
    this.select(this.track);
  }
}

/** @param {SceneModel} scene @param {number} row @returns {string} */
function agentText(scene, row) {
  const { agent_track: tracks, agent_label: labels } = scene.arrays;
  return entryText(scene.trackIds[tracks[row]], className(scene.facts.labels[labels[row]] ?? "?"), scene.speedOf(row));
}

/** @param {string} id @param {string} name @param {number} speed m/s @returns {string} in columns of a fixed width */
function entryText(id, name, speed) {
  return `${id.padEnd(7, "\u00a0")}${name.padEnd(12, "\u00a0")}${quantity(speed, 1).padStart(6, "\u00a0")} m/s`;
}

/** @param {string} value of the list, empty if the browser has dropped the selection @returns {number | null} */
export function trackOf(value) {
  return value === "" ? null : Number(value);
}
