// @ts-check
/**
 * The page of two datasets: two viewer pages in frames, which follow each other, and below them the curves of both
 * drives.
 */

import { BothCurves } from "l5kit/both_curves";
import { elementById } from "l5kit/dom";

const asked = new URLSearchParams(location.search);
const frames = ["left", "right"].map((side) => elementById(side, HTMLIFrameElement));
const onSeek = (/** @type {import("l5kit/both_curves").Seek} */ seek) =>
  frames[seek.side].contentWindow?.postMessage(seek, location.origin);
const curves = new BothCurves(onSeek, { isOfOverview: asked.has("left") });

addEventListener("message", ({ source, origin, data }) => {
  if (origin !== location.origin) return;
  const side = frames.findIndex((frame) => frame.contentWindow === source);
  if (side < 0) return;
  if ("drive" in data) curves.setDrive(side, data.drive);
  else frames[1 - side].contentWindow?.postMessage(data, origin);
  if ("shown" in data) curves.showTime(data.shown);
});
// an overview selects two of its planners, such as ?left=planner-0&right=planner-2
for (const frame of frames) frame.src = `${placeOf(asked.get(frame.id)) ?? frame.id}/${location.hash}`;
frames[0].addEventListener("load", () => frames[0].focus());

/** @param {string | null} name @returns {string | null} null if it is not the address of a planner */
function placeOf(name) {
  return name !== null && /^planner-\d{1,3}$/.test(name) ? name : null;
}
