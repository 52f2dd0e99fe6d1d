// @ts-check
/** The page of two datasets: two pages of the viewer in frames, each of which hears what the other tells. */

import { elementById } from "l5kit/dom";

const frames = ["left", "right"].map((side) => elementById(side, HTMLIFrameElement));

addEventListener("message", ({ source, origin, data }) => {
  if (origin !== location.origin) return;
  const other = frames.find((frame) => frame.contentWindow !== source);
  if (frames.some((frame) => frame.contentWindow === source)) other?.contentWindow?.postMessage(data, origin);
});
for (const frame of frames) frame.src = `${frame.id}/${location.hash}`;
frames[0].addEventListener("load", () => frames[0].focus());
