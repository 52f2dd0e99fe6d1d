// @ts-check
/** Headings of the page and of the player: names and figures of the dataset, and of the scene. */

import { byId, setText } from "l5kit/dom";
import { clockTime, counted, quantity, withoutMap } from "l5kit/format";

/** @param {import("l5kit/source").Dataset} dataset @param {boolean} exported whether the page has a single scene of it */
export function showDataset(dataset, exported) {
  const name = byId("dataset-name");
  setText(name, dataset.name);
  name.title = dataset.path ?? dataset.name;
  document.title = `${dataset.name} \u00b7 l5kit view`;
  const scenes = counted(dataset.num_scenes, "scene");
  const facts = `${scenes}, ${counted(dataset.num_frames, "frame")}, ${counted(dataset.num_agents, "agent")}`;
  if (dataset.run) {
    const { planner, agents, score, metrics, num_failed: failed } = dataset.run;
    const undriven = failed ? `, ${failed} not driven to the end` : "";
    const run = `${planner} among ${agents}: score ${quantity(score, 3)}${withoutMap(metrics)}, ${scenes}${undriven}`;
    setText(byId("dataset-facts"), exported ? `one of ${scenes}, exported` : run);
    return;
  }
  setText(byId("dataset-facts"), exported ? `one of ${scenes}, exported` : facts);
}

/** @param {import("l5kit/scene_model").SceneModel} model @param {string} datasetName */
export function showScene({ facts, time_s, trackIds }, datasetName) {
  setText(byId("scene-title"), `Scene ${facts.scene_index}`);
  const length = quantity(time_s[time_s.length - 1], 1, "s");
  const parts = [facts.host, clockTime(facts.start_time_ns), length, counted(trackIds.length, "track")];
  setText(byId("scene-facts"), parts.filter(Boolean).join(" \u00b7 "));
  document.title = `Scene ${facts.scene_index} \u00b7 ${datasetName} \u00b7 l5kit view`;
}
