// @ts-check
/** Playback controls: slider, buttons, speed, time. */

import { byId, elementById, make, onPress, setPressed, setText } from "l5kit/dom";
import { quantity } from "l5kit/format";
import { SPEEDS } from "l5kit/playback";

/** @typedef {import("l5kit/playback").Playback} Playback */

/**
 * Connect the controls to the clock.
 * @param {Playback} playback
 * @returns {{showFrame: () => void, showState: () => void, setScene: () => void}} to be called when the clock changes
 */
export function createPlayer(playback) {
  const slider = elementById("slider", HTMLInputElement);
  const speed = elementById("speed", HTMLSelectElement);
  const label = byId("frame-label");
  for (const value of SPEEDS) speed.append(make("option", { value }, `${value}x`));
  slider.addEventListener("input", () => playback.seek(Number(slider.value)));
  let byPointer = false;
  speed.addEventListener("pointerdown", () => (byPointer = true));
  speed.addEventListener("keydown", () => (byPointer = false));
  speed.addEventListener("change", () => {
    playback.setSpeed(Number(speed.value));
    if (byPointer) speed.blur();
  });
  onPress(byId("play"), () => playback.toggle());
  onPress(byId("step-back"), () => playback.step(-1));
  onPress(byId("step-forward"), () => playback.step(1));
  onPress(byId("loop"), () => playback.setLoop(!playback.loop));

  const showFrame = () => {
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
    slider.max = String(Math.max(playback.numFrames - 1, 0));
    showFrame();
    showState();
  };
  return { showFrame, showState, setScene };
}
