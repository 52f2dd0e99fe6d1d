// @ts-check
/** Positions of track ids next to boxes; of overlapping labels, only the most important one is shown. */

import { EGO_TRACK } from "l5kit/tracks";

const FROM = 5; // CSS pixels per metre; at smaller scales only chosen agents have labels
const GAP_PX = 9; // from the box to the centre of the text
const DIGIT_PX = 7.2;
const HEIGHT_PX = 14;

/** @typedef {{track: number, name: string, x: number, y: number}} Label centre in CSS pixels */
/**
 * @typedef {object} Labelled
 * @property {(x: number, y: number) => {x: number, y: number}} toPage CSS pixels of metres from the origin of the scene
 * @property {{scale: number, width: number, height: number}} view
 * @property {string[]} trackIds
 * @property {(number | null)[]} chosen tracks with a label at any zoom, before all others
 * @property {boolean} all whether other tracks have labels
 */

/**
 * @param {import("l5kit/boxes").Box[]} boxes metres from the origin of the scene
 * @param {Labelled} how
 * @returns {Label[]} within the view, without overlaps
 */
export function placeLabels(boxes, { toPage, view, trackIds, chosen, all }) {
  const dense = all && view.scale >= FROM;
  const wanted = boxes.filter((box) => chosen.includes(box.track) || (dense && box.track !== EGO_TRACK));
  const rank = (/** @type {{track: number}} */ { track }) => (chosen.includes(track) ? -1 : track);
  wanted.sort((one, other) => rank(one) - rank(other));
  /** @type {Label[]} */
  const labels = [];
  for (const box of wanted) {
    const name = box.track === EGO_TRACK ? "AV" : trackIds[box.track];
    const label = { track: box.track, name, ...labelPoint(box, toPage(box.x, box.y), view.scale) };
    const isSeen = label.x >= 0 && label.y >= 0 && label.x <= view.width && label.y <= view.height;
    if (isSeen && !labels.some((other) => overlap(label, other))) labels.push(label);
  }
  return labels;
}

/** @param {Label} one @param {Label} other @returns {boolean} */
function overlap(one, other) {
  const isBeside = Math.abs(one.x - other.x) >= halfWidth(one) + halfWidth(other);
  return !isBeside && Math.abs(one.y - other.y) < HEIGHT_PX;
}

/** @param {Label} label @returns {number} CSS pixels */
function halfWidth({ name }) {
  return (name.length * DIGIT_PX) / 2 + 1;
}

/**
 * @param {import("l5kit/boxes").Box} box
 * @param {{x: number, y: number}} middle
 * @param {number} scale
 * @returns {{x: number, y: number}}
 */
function labelPoint({ yaw, length, width }, { x, y }, scale) {
  const reach = (Math.abs(Math.sin(yaw)) * length + Math.abs(Math.cos(yaw)) * width) / 2;
  return { x: Math.round(x), y: Math.round(y - reach * scale - GAP_PX) };
}
