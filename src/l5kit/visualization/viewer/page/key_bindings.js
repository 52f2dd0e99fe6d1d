// @ts-check
/** Key bindings of the player. */

/** @typedef {import("l5kit/keys").Binding} Binding */
/** @typedef {import("l5kit/playback").Playback} Playback */
/** @typedef {import("l5kit/view_control").ViewControl} ViewControl */

const SHIFT_FRAMES = 10; // a step with Shift

/**
 * @param {object} parts
 * @param {Pick<Playback, "toggle" | "step" | "seek">} parts.playback
 * @param {Pick<ViewControl, "zoomIn" | "zoomOut" | "fit" | "toggleFollow" | "toggleDrawn">} parts.view
 * @param {((by: number) => void) | null} parts.playFailure play the next or previous failure; null without a simulation
 * @param {((by: number) => void) | null} parts.openNeighbour null for a single scene
 * @param {boolean} [parts.isPredicted] whether there are predictions
 * @param {() => void} parts.measure start or stop measuring
 * @param {(() => void) | null} parts.toggleAerial null without an aerial picture
 * @param {() => void} parts.leave close the topmost panel, else clear the selection
 * @returns {Binding[]}
 */
export function keyBindings({
  playback,
  view,
  playFailure,
  openNeighbour,
  isPredicted = false,
  measure,
  toggleAerial,
  leave,
}) {
  const step = (/** @type {{shiftKey: boolean}} */ { shiftKey }, /** @type {number} */ sign) =>
    playback.step(sign * (shiftKey ? SHIFT_FRAMES : 1));
  const scenes = openNeighbour && [
    { keys: ["n"], shown: "N", does: "next scene of the list", run: () => openNeighbour(1) },
    { keys: ["p"], shown: "P", does: "previous scene of the list", run: () => openNeighbour(-1) },
  ];
  const predictions = isPredicted && [
    { keys: ["w"], shown: "W", does: "predicted ways", run: () => view.toggleDrawn(["predictions"]) },
  ];
  const drive = playFailure && [
    {
      keys: ["e"],
      shown: "E",
      does: "play the next failure (with Shift: the one before)",
      run: (/** @type {KeyboardEvent} */ { shiftKey }) => playFailure(shiftKey ? -1 : 1),
    },
    { keys: ["g"], shown: "G", does: "ghosts of the log", run: () => view.toggleDrawn(["ghosts"]) },
    { keys: ["d"], shown: "D", does: "what is planned", run: () => view.toggleDrawn(["plan"]) },
  ];
  return [
    { keys: [" "], shown: "Space", does: "play or pause", run: () => playback.toggle() },
    { keys: ["ArrowLeft"], shown: "\u2190", does: "one frame back (with Shift: 10)", run: (event) => step(event, -1) },
    {
      keys: ["ArrowRight"],
      shown: "\u2192",
      does: "one frame forward (with Shift: 10)",
      run: (event) => step(event, 1),
    },
    { keys: ["Home"], shown: "Home", does: "first frame", run: () => playback.seek(0) },
    { keys: ["End"], shown: "End", does: "last frame", run: () => playback.step(Infinity) },
    { keys: ["+", "="], shown: "+", does: "zoom in", run: () => view.zoomIn() },
    { keys: ["-", "_"], shown: "-", does: "zoom out", run: () => view.zoomOut() },
    { keys: ["0"], shown: "0", does: "first view", run: () => view.fit() },
    { keys: ["f"], shown: "F", does: "follow the AV, or stay", run: () => view.toggleFollow() },
    { keys: ["l"], shown: "L", does: "track ids", run: () => view.toggleDrawn(["labels"]) },
    { keys: ["t"], shown: "T", does: "trajectories", run: () => view.toggleDrawn(["past", "future"]) },
    { keys: ["m"], shown: "M", does: "agents outside the mask faint", run: () => view.toggleDrawn(["mask"]) },
    { keys: ["r"], shown: "R", does: "ruler: click two places", run: () => measure() },
    ...(toggleAerial ? [{ keys: ["a"], shown: "A", does: "aerial picture", run: () => toggleAerial() }] : []),
    ...(predictions || []),
    ...(drive ?? []),
    ...(scenes ?? []),
    { keys: ["Escape"], shown: "Esc", does: "deselect", run: () => leave() },
  ];
}
