// @ts-check
/** Tags of scenes, with their frames, as far as they have been found, without elements. */

/** @typedef {[number, number]} Event first frame and end */
/**
 * @typedef {object} TagKind
 * @property {string} name
 * @property {string} label for display
 * @property {boolean} is_known false if it needs a map and there is none
 */
/**
 * @typedef {object} TagPart results of the server so far, or a part of them
 * @property {TagKind[]} tags
 * @property {Record<string, Record<string, Event[]>>} scenes events by scene and tag; scenes without any are omitted
 * @property {number} done number of finished scenes
 * @property {string} error why the search stopped; empty for no error
 */
/** @typedef {TagKind & {events: Event[]}} Tag a tag of a scene */

/** The tags of all scenes of a dataset. */
export class SceneTags {
  constructor() {
    /** @type {TagKind[]} */
    this.kinds = [];
    /** @type {Map<number, Record<string, Event[]>>} */
    this.events = new Map();
    this.done = 0;
    this.error = "";
  }

  /** @param {TagPart} part */
  add({ tags, scenes, done, error }) {
    this.kinds = tags;
    this.done = done;
    this.error = error;
    for (const [scene, events] of Object.entries(scenes)) this.events.set(Number(scene), events);
  }

  /** @param {number} scene @returns {Tag[]} in the order of the kinds */
  of(scene) {
    const events = this.events.get(scene) ?? {};
    return this.kinds.filter(({ name }) => events[name]).map((kind) => ({ ...kind, events: events[kind.name] }));
  }

  /** @param {number} scene @param {string} name @returns {boolean} */
  has(scene, name) {
    return Object.hasOwn(this.events.get(scene) ?? {}, name);
  }

  /** @param {number} scene @returns {string} text for searches, in lower case */
  words(scene) {
    return this.of(scene)
      .flatMap(({ name, label }) => [label, name.replaceAll("_", " "), label.replaceAll("-", " ")])
      .join("\n")
      .toLowerCase();
  }

  /** @returns {string[]} labels of the tags that cannot be determined */
  unknown() {
    return this.kinds.filter((kind) => !kind.is_known).map((kind) => kind.label);
  }
}

/**
 * Return the start of the next event, or of the first after the last.
 * @param {Event[]} events at least one
 * @param {number} frame the current frame; -1 for none
 * @returns {number}
 */
export function nextStart(events, frame) {
  return (events.find(([begin]) => begin > frame) ?? events[0])[0];
}

/**
 * Request the tags of a source until all scenes are finished.
 * @param {(first: number) => Promise<TagPart>} ask results from a scene on
 * @param {number} numScenes
 * @param {(tags: SceneTags) => void} onMore
 * @param {(ms: number) => Promise<void>} wait
 * @returns {Promise<SceneTags>}
 */
export async function followTags(ask, numScenes, onMore, wait) {
  const tags = new SceneTags();
  for (let pause_ms = 100; tags.done < numScenes && !tags.error; pause_ms = Math.min(2 * pause_ms, 2000)) {
    const before = tags.done;
    const isFirst = !tags.kinds.length;
    tags.add(await ask(before));
    if (isFirst || tags.done > before || tags.error) onMore(tags);
    if (tags.done < numScenes && !tags.error) await wait(pause_ms);
  }
  return tags;
}
