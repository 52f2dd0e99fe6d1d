// @ts-check
/** Tags of scenes: what happens in each and in which frames, as far as it has been found. No elements here. */

/** @typedef {[number, number]} Event first frame, and the one behind the last */
/**
 * @typedef {object} TagKind
 * @property {string} name
 * @property {string} label as people read it
 * @property {boolean} is_known false where it needs a map and there is none
 */
/**
 * @typedef {object} TagPart what the server has found so far, or a part of it
 * @property {TagKind[]} tags
 * @property {Record<string, Record<string, Event[]>>} scenes events by scene and tag; scenes without any are left out
 * @property {number} done how many scenes have been looked at
 * @property {string} error why it ended; empty where nothing is wrong
 */
/** @typedef {TagKind & {events: Event[]}} Tag a tag that a scene has */

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

  /** @param {number} scene @returns {string} what a search looks through, in small letters */
  words(scene) {
    return this.of(scene)
      .flatMap(({ name, label }) => [label, name.replaceAll("_", " "), label.replaceAll("-", " ")])
      .join("\n")
      .toLowerCase();
  }

  /** @returns {string[]} labels of the tags that cannot be told */
  unknown() {
    return this.kinds.filter((kind) => !kind.is_known).map((kind) => kind.label);
  }
}

/**
 * Where the next event begins, the first again after the last.
 * @param {Event[]} events at least one
 * @param {number} frame that is shown; -1: none
 * @returns {number}
 */
export function nextStart(events, frame) {
  return (events.find(([begin]) => begin > frame) ?? events[0])[0];
}

/**
 * The tags of a source, asked for until all scenes have been looked at.
 * @param {(first: number) => Promise<TagPart>} ask what was found from a scene on
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
