// @ts-check
/** What is told of the frame around the picture: slider and time, the agent, all agents, the sample. */

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

const TIME_EVERY_MS = 100; // while it plays, slider and time change at most so often
const PANEL_EVERY_MS = 200; // the panel of the agent
const LIST_EVERY_MS = 1000; // the list of agents

/** All of these; while it plays they change now and then, since drawing comes first. */
export class FramePanels {
  /**
   * @param {Playback} playback
   * @param {object} hooks
   * @param {(track: number | null) => void} hooks.onSelect
   * @param {() => void} hooks.onFollow follow the selected agent, or no longer
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

  /** @param {SceneModel} model a scene of which nothing is selected */
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

  /** Show no sample while another scene is on its way. */
  leaveScene() {
    this.model = null;
    this.sample?.show(null, false);
  }

  /** @param {import("l5kit/unpack").PackedDrive | null} drive of the scene that is shown */
  setDrive(drive) {
    this.drive.setDrive(drive);
  }

  /** @param {import("l5kit/unpack").PackedPredictions | null} predictions of the scene that is shown */
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

  /** It plays, or no longer. */
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
   * Do something after a while, unless it is due already.
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
