// @ts-check
/** Marks of failures below the slider, as long as the failures; a press plays one. */

import { make, onPress } from "l5kit/dom";
import { colorOf, describe, rowsOfMarks } from "l5kit/failures";

const LEAST_SHARE = 0.022; // smallest width of a mark, as a share of the slider
const ROW_PX = 10;

/**
 * Show the failures of a drive.
 * @param {HTMLElement} place below the slider
 * @param {import("l5kit/drive_model").DriveModel | null} drive null: none
 * @param {ArrayLike<number>} time_s (F,)
 * @param {(failure: number) => void} onPlay
 */
export function showMarks(place, drive, time_s, onPlay) {
  const failures = drive?.failures ?? [];
  const last = Math.max(time_s.length - 1, 1);
  const rows = rowsOfMarks(failures, Math.ceil(LEAST_SHARE * last));
  const marks = failures.map((failure, number) => {
    const text = describe(failure, time_s);
    const mark = make("button", {
      type: "button",
      class: "failure-mark",
      title: `${text}: press to play from two seconds before`,
      "aria-label": `Play ${text}`,
      "data-testid": "failure-mark",
      "data-kind": failure.kind,
    });
    const share = (failure.last_frame - failure.first_frame) / last;
    mark.style.left = `${(100 * failure.first_frame) / last}%`;
    mark.style.width = `${100 * Math.max(share, LEAST_SHARE)}%`;
    mark.style.top = `${ROW_PX * rows[number]}px`;
    mark.style.background = colorOf(failure);
    onPress(mark, () => onPlay(number));
    return mark;
  });
  place.style.height = `${ROW_PX * (Math.max(-1, ...rows) + 1)}px`;
  place.hidden = !marks.length;
  place.replaceChildren(...marks);
}
