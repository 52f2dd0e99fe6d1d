// @ts-check
/** The controls under the picture: slider, buttons, speed, time. */

import { byId, make, setPressed, setText } from "l5kit/dom";
import { quantity } from "l5kit/format";
import { SPEEDS } from "l5kit/playback";

/** @typedef {import("l5kit/playback").Playback} Playback */

/**
 * Wire the controls to the clock.
 * @param {() => Playback} getPlayback
 * @returns {{showFrame: () => void, showState: () => void, setScene: () => void}} to be called when the clock changes
 */
export function createPlayer(getPlayback) {
  const slider = /** @type {HTMLInputElement} */ (byId("slider"));
  const speed = /** @type {HTMLSelectElement} */ (byId("speed"));
  const label = byId("frame-label");
  for (const value of SPEEDS) speed.append(make("option", { value }, `${value}x`));
  slider.addEventListener("input", () => getPlayback().seek(Number(slider.value)));
  let byPointer = false;
  speed.addEventListener("pointerdown", () => (byPointer = true));
  speed.addEventListener("keydown", () => (byPointer = false));
  speed.addEventListener("change", () => {
    getPlayback().setSpeed(Number(speed.value));
    if (byPointer) speed.blur();
  });
  onPress(byId("play"), () => getPlayback().toggle());
  onPress(byId("step-back"), () => getPlayback().step(-1));
  onPress(byId("step-forward"), () => getPlayback().step(1));
  onPress(byId("loop"), () => getPlayback().setLoop(!getPlayback().loop));

  const showFrame = () => {
    const playback = getPlayback();
    const { frame, numFrames, time_s } = playback;
    const last = Math.max(numFrames - 1, 0);
    const time = quantity(time_s[frame], 1);
    slider.value = String(frame);
    slider.style.setProperty("--done", last ? `${(100 * frame) / last}%` : "0%");
    slider.setAttribute("aria-valuetext", `${time} s, frame ${frame}`);
    label.dataset.frame = String(frame);
    setText(label, `${time} / ${quantity(time_s[last], 1)} s \u00b7 frame ${frame} / ${last}`);
  };
  const showState = () => {
    const playback = getPlayback();
    const verb = playback.playing ? "Pause" : "Play";
    const play = byId("play");
    play.title = `${verb} (space)`;
    play.setAttribute("aria-label", verb);
    play.querySelector("use")?.setAttribute("href", playback.playing ? "#icon-pause" : "#icon-play");
    speed.value = String(playback.speed);
    setPressed(byId("loop"), playback.loop);
    byId("loop").title = playback.loop
      ? "At the end: start over. Press to stop there instead"
      : "At the end: stop. Press to start over instead";
  };
  const setScene = () => {
    slider.max = String(Math.max(getPlayback().numFrames - 1, 0));
    showFrame();
    showState();
  };
  return { showFrame, showState, setScene };
}

/**
 * Call back on a press; a press by pointer leaves the keyboard to the player, so that space still plays.
 * @param {HTMLElement} button
 * @param {() => void} action
 */
export function onPress(button, action) {
  button.addEventListener("click", (event) => {
    if (event.detail > 0) button.blur();
    action();
  });
}
