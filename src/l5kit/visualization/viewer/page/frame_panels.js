// @ts-check
/** Panels of the current frame: slider and time, the selected agent, all agents, the sample. */

import { AgentList } from "l5kit/agent_list";
import { AgentPanel } from "l5kit/agent_panel";
import { byId } from "l5kit/dom";
import { DriveView } from "l5kit/drive_view";
import { createPlayer } from "l5kit/player";
import { PredictionView } from "l5kit/prediction_view";
import { SamplePanel } from "l5kit/sample_panel";
import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/playback").Playback} Playback */
/** @typedef {import("l5kit/scene_model").SceneModel} SceneModel */

const TIME_EVERY_MS = 100; // least interval between updates of slider and time while playing
const PANEL_EVERY_MS = 200; // the panel of the agent
const LIST_EVERY_MS = 1000; // the list of agents

/** All panels of the frame; while playing they are updated at intervals, since drawing has priority. */
export class FramePanels {
  /**
   * @param {Playback} playback
   * @param {object} hooks
   * @param {(track: number | null) => void} hooks.onSelect
   * @param {() => void} hooks.onFollow called to follow the selected agent, or to stop following
   * @param {(drive: import("l5kit/drive_model").DriveModel | null) => void} hooks.onDrive
   * @param {(predictions: import("l5kit/predictions").PredictionModel | null) => void} hooks.onPredictions
   * @param {() => import("l5kit/theme").Theme} hooks.theme
   */
  constructor(playback, { onSelect, onFollow, onDrive, onPredictions, theme }) {
    this.playback = playback;
    /** @type {SceneModel | null} */
    this.model = null;
    /** @type {number | null} */
    this.track = null;
    this.timers = { time: 0, panel: 0, list: 0 };
    this.player = createPlayer(playback);
    this.agent = new AgentPanel({
      onSeek: (frame) => playback.seek(frame),
      onDeselect: () => onSelect(null),
      onFollow,
      theme,
    });
    this.drive = new DriveView(playback, { onDrive, theme });
    this.predictions = new PredictionView(playback, onPredictions);
    this.agent.mask.before(this.predictions.element);
    this.agentList = new AgentList(byId("agent-panel"), onSelect);
    /** @type {SamplePanel | null} */
    this.sample = null;
  }

  /** @param {import("l5kit/source").Samples | null} samples @param {boolean} hasMap */
  setSamples(samples, hasMap) {
    this.sample = new SamplePanel(samples, hasMap);
  }

  /** @param {SceneModel} model a scene without a selection */
  setScene(model) {
    this.hold(model);
    this.player.setScene();
  }

  /** Show nothing, as for a damaged scene. */
  clear() {
    this.hold(null);
    this.setDrive(null);
    this.setPredictions(null);
    this.player.setScene();
    this.agentList.fill();
    this.sample?.show(null, false);
  }

  /** Hide the sample while another scene is loading. */
  leaveScene() {
    this.model = null;
    this.sample?.show(null, false);
  }

  /** @param {import("l5kit/unpack").PackedDrive | null} drive of the current scene */
  setDrive(drive) {
    this.drive.setDrive(drive);
  }

  /** @param {import("l5kit/unpack").PackedPredictions | null} predictions of the current scene */
  setPredictions(predictions) {
    this.predictions.setPredictions(predictions, this.model);
  }

  /** @param {SceneModel | null} model */
  hold(model) {
    this.model = model;
    this.track = null;
    this.agent.setScene(model);
    this.agentList.setScene(model);
  }

  /** @param {number | null} track index, EGO_TRACK or null */
  select(track) {
    this.track = track;
    this.agent.select(track);
    this.predictions.select(track);
    this.agentList.select(track);
    this.showSample();
  }

  /** The frame has changed. */
  showFrame() {
    if (this.playback.playing) this.showSoon();
    else this.showNow();
  }

  /** Playback has started or stopped. */
  showState() {
    this.player.showState();
    if (this.playback.playing) this.showSample();
    else if (this.model) this.showNow();
  }

  showNow() {
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
    this.timers = { time: 0, panel: 0, list: 0 };
    this.player.showFrame();
    this.agent.showFrame(this.playback.frame);
    this.predictions.showFrame(this.playback.frame);
    this.agentList.showFrame(this.playback.frame);
    this.drive.showFrame(this.playback.frame);
    this.showSample();
  }

  showSoon() {
    this.soon("time", TIME_EVERY_MS, () => this.player.showFrame());
    this.soon("panel", PANEL_EVERY_MS, () => {
      this.agent.showFrame(this.playback.frame);
      this.predictions.showFrame(this.playback.frame);
      this.drive.showFrame(this.playback.frame);
    });
    this.soon("list", LIST_EVERY_MS, () => this.agentList.showFrame(this.playback.frame));
  }

  /**
   * Schedule an action, unless it is scheduled already.
   * @param {"time" | "panel" | "list"} name
   * @param {number} after_ms
   * @param {() => void} action
   */
  soon(name, after_ms, action) {
    this.timers[name] ||= window.setTimeout(() => {
      this.timers[name] = 0;
      action();
    }, after_ms);
  }

  showSample() {
    const { model, track } = this;
    if (!model) return;
    const { frame, playing } = this.playback;
    const ofAgent = track !== null && track !== EGO_TRACK;
    const trackId = ofAgent ? model.trackIds[track] : null;
    const inFrame = !ofAgent || model.rowOf(track, frame) >= 0;
    this.sample?.show({ scene: model.facts.scene_index, frame, trackId, inFrame }, playing);
  }

  /** @param {boolean} follows whether the view follows the selected agent */
  showFollowing(follows) {
    this.agent.showFollowing(follows);
  }

  /** Draw in the colours of the theme. */
  themeChanged() {
    this.agent.themeChanged();
    this.drive.themeChanged();
  }
}
