// @ts-check
/** The scenes of the dataset next to the player: their table and their list, once loaded. */

import { byId, errorBox, make } from "l5kit/dom";
import { createDrawer } from "l5kit/drawer";
import { messageOf } from "l5kit/format";
import { SceneList } from "l5kit/scene_list";
import { SceneTable } from "l5kit/scene_table";

/** Table and list; the player works without them. */
export class Scenes {
  /**
   * @param {(scene: number) => void} onOpen called when a scene of the list is chosen
   * @param {(scene: number, tag: import("l5kit/scene_tags").Tag) => void} onTag called when a tag of a scene is chosen
   */
  constructor(onOpen, onTag) {
    this.onOpen = onOpen;
    this.onTag = onTag;
    /** @type {SceneTable | null} */
    this.table = null;
    /** @type {SceneList | null} */
    this.list = null;
    /** @type {number | null} */
    this.selected = null;
    this.closeDrawer = () => false; // true if it was open
  }

  /** Show the list once it is loaded. @param {import("l5kit/source").Source} source @param {number} numScenes */
  async load(source, numScenes) {
    const section = byId("scenes");
    const { closeDrawer } = createDrawer({
      layout: byId("layout"),
      button: byId("scenes-toggle"),
      veil: byId("drawer-veil"),
      section,
    });
    this.closeDrawer = closeDrawer;
    const waiting = section.appendChild(make("p", { class: "list-waiting" }, "Loading the list of scenes"));
    try {
      this.table = new SceneTable(await source.scenes(), numScenes);
    } catch (error) {
      waiting.replaceWith(errorBox("The scenes cannot be listed", messageOf(error)));
      return;
    }
    waiting.remove();
    const open = (/** @type {number} */ scene) => {
      closeDrawer();
      this.onOpen(scene);
    };
    this.list = new SceneList(section, this.table, open, (scene, tag) => {
      closeDrawer();
      this.onTag(scene, tag);
    });
    this.list.select(this.selected);
  }

  /** @param {import("l5kit/scene_tags").SceneTags} tags the tags known so far */
  setTags(tags) {
    if (!this.table) return;
    this.table.tags = tags;
    this.list?.showTags();
  }

  /** @returns {number[] | null} the scenes in the order of the list; null before it is loaded */
  listed() {
    return this.list && [...this.list.listed];
  }

  /** Hide the list, as in a file with one scene. */
  hide() {
    byId("layout").dataset.list = "none";
    byId("scenes-toggle").hidden = true;
  }

  /** @param {number} scene the open scene */
  select(scene) {
    this.selected = scene;
    this.list?.select(scene);
  }

  /** @param {number} by 1 for the next scene of the list, -1 for the previous one */
  openNeighbour(by) {
    const scene = this.list?.neighbour(by) ?? null;
    if (scene !== null) this.onOpen(scene);
  }

  /**
   * @param {number} scene
   * @returns {string | null} why it cannot be read; null if it can, or if it is unknown yet
   */
  error(scene) {
    return this.table?.error(scene) ?? null;
  }

  /** @param {number} scene @returns {string | null} defect of a readable scene */
  doubt(scene) {
    return this.table?.doubt(scene) ?? null;
  }
}
