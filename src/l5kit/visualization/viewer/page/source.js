// @ts-check
/** Data sources of the page: the server of `l5kit view`, or an exported file. */

import { unpackDrive, unpackLanes, unpackMap, unpackPredictions, unpackScene } from "l5kit/unpack";

/** @typedef {import("l5kit/unpack").PackedDrive} PackedDrive */
/** @typedef {import("l5kit/unpack").PackedLanes} PackedLanes */
/** @typedef {import("l5kit/unpack").PackedMap} PackedMap */
/** @typedef {import("l5kit/unpack").PackedPredictions} PackedPredictions */
/** @typedef {import("l5kit/unpack").PackedScene} PackedScene */
/**
 * @typedef {object} Dataset
 * @property {string} name
 * @property {string} [path] omitted in an exported file
 * @property {number} num_scenes
 * @property {number} num_frames
 * @property {number} num_agents
 * @property {boolean} has_map
 * @property {boolean} has_aerial
 * @property {string[]} sample_kinds
 * @property {string[]} notes
 * @property {Run | null} [run] null if it is not a simulation
 * @property {string | null} [predictions] name of the predictions; null for none
 */
/**
 * @typedef {object} Run a simulation
 * @property {string | null} planner
 * @property {string | null} agents drivers of the other agents
 * @property {number | null} score mean over the scenes
 * @property {Record<string, number | null> | null} metrics
 * @property {number | null} num_scored
 * @property {number} num_failed scenes that could not be driven to their end
 */
/**
 * @typedef {object} SceneColumns one value per scene; null if unknown
 * @property {(number | null)[]} [num_frames]
 * @property {(number | null)[]} [length_s]
 * @property {(number | null)[]} [agents_per_frame]
 * @property {(number | null)[]} [distance_m]
 * @property {(number | null)[]} [turn_deg]
 * @property {(number | null)[]} [speed_mps]
 * @property {(string | null)[]} [turn]
 * @property {(string | null)[]} [host]
 * @property {(number | null)[]} [score] of a simulation; likewise the next two
 * @property {string[][]} [failed] failed metrics
 * @property {(number | string)[]} [log_scene] the scene in its log
 * @property {Record<string, string>} [error] why a scene cannot be read, by scene
 * @property {Record<string, string>} [doubt] defects of readable scenes, by scene
 */
/**
 * @typedef {object} Samples
 * @property {string[]} kinds
 * @property {(scene: number, frame: number, trackId: string | null, kind: string) => string} rasterUrl
 * @property {(scene: number, frame: number, trackId: string | null) => string} vectorUrl
 * @property {() => Promise<boolean>} isCompiling whether the server is compiling kernels now
 */
/**
 * @typedef {object} Source
 * @property {boolean} exported whether this is a file with one scene
 * @property {() => Promise<number | null>} onlyScene index of the scene of an exported file, else null
 * @property {() => Promise<Dataset>} dataset
 * @property {() => Promise<SceneColumns>} scenes
 * @property {(first: number) => Promise<import("l5kit/scene_tags").TagPart>} tags found so far, from a scene on
 * @property {(index: number) => Promise<PackedScene>} scene
 * @property {(index: number) => Promise<PackedDrive | null>} drive null if the dataset is not a simulation
 * @property {(index: number) => Promise<PackedPredictions | null>} predictions null for none
 * @property {() => Promise<PackedMap | null>} map
 * @property {() => Promise<PackedLanes>} lanes of this map, loaded when one is selected
 * @property {(scene: number) => Promise<import("l5kit/aerial_view").Aerial>} aerial the aerial picture under a scene
 * @property {Samples | null} samples null in an exported file
 */

/**
 * Open the source of this page: the data embedded in it, else the server that sent it.
 * @returns {Source}
 */
export function openSource() {
  const embedded = document.getElementById("l5kit-export");
  return embedded ? embeddedSource(JSON.parse(embedded.textContent || "{}")) : serverSource();
}

const NO_TAGS = { tags: [], scenes: {}, done: 0, error: "" };

/** @returns {Source} */
function serverSource() {
  /** @type {Promise<Dataset> | null} */
  let dataset = null;
  const getDataset = () => (dataset ??= request("api/dataset").then((response) => response.json()));
  /** @type {Samples} */
  const samples = {
    kinds: [],
    rasterUrl: (scene, frame, trackId, kind) => `api/raster/${scene}/${frame}${query({ track: trackId, kind })}`,
    vectorUrl: (scene, frame, trackId) => `api/vector/${scene}/${frame}${query({ track: trackId })}`,
    isCompiling: async () => (await (await request("api/status")).json()).compiling,
  };
  return {
    exported: false,
    onlyScene: async () => null,
    dataset: async () => {
      const facts = await getDataset();
      samples.kinds = facts.sample_kinds ?? [];
      return facts;
    },
    scenes: async () => (await request("api/scenes")).json(),
    tags: async (first) => (await request(`api/tags/${first}`)).json(),
    scene: async (index) => unpackScene(await (await requestData(`api/scene/${index}`)).arrayBuffer()),
    drive: async (index) => {
      const { run } = await getDataset();
      return run ? unpackDrive(await (await requestData(`api/drive/${index}`)).arrayBuffer()) : null;
    },
    predictions: async (index) => {
      const { predictions } = await getDataset();
      if (!predictions) return null;
      return unpackPredictions(await (await requestData(`api/predictions/${index}`)).arrayBuffer());
    },
    map: async () => {
      const facts = await getDataset();
      return facts.has_map ? unpackMap(await (await requestData("api/map")).arrayBuffer()) : null;
    },
    aerial: async (scene) => ({
      facts: await (await request(`api/aerial/${scene}`)).json(),
      tileUrl: ({ level, column, row }) => `api/tile/${level}/${column}/${row}`,
    }),
    lanes: async () => unpackLanes(await (await requestData("api/lanes")).arrayBuffer()),
    samples,
  };
}

/**
 * @param {{dataset: Dataset, scenes: SceneColumns, scene_index: number, scene: string,
 *   drive?: string | null, predictions?: string | null, map: string | null, lanes?: string | null,
 *   aerial?: {facts: import("l5kit/aerial").AerialFacts, jpeg: string} | null,
 *   tags?: import("l5kit/scene_tags").TagPart}} data
 * @returns {Source}
 */
function embeddedSource(data) {
  /** @type {Promise<PackedScene> | null} */
  let scene = null;
  const getScene = () => (scene ??= unzip(data.scene).then(unpackScene));
  return {
    exported: true,
    onlyScene: async () => data.scene_index,
    dataset: async () => data.dataset,
    scenes: async () => data.scenes,
    tags: async () => ({ ...(data.tags ?? NO_TAGS), done: data.dataset.num_scenes }), // there is only one scene
    scene: async (index) => {
      const packed = await getScene();
      const held = packed.facts.scene_index;
      if (index !== held) throw new Error(`this file holds scene ${held} only, not scene ${index}`);
      return packed;
    },
    drive: async () => (data.drive ? unpackDrive(await unzip(data.drive)) : null),
    predictions: async () => (data.predictions ? unpackPredictions(await unzip(data.predictions)) : null),
    map: async () => (data.map ? unpackMap(await unzip(data.map)) : null),
    aerial: async () => {
      const { aerial } = data;
      if (!aerial) throw new Error("it is not in this file");
      return { facts: aerial.facts, tileUrl: () => `data:image/jpeg;base64,${aerial.jpeg}` };
    },
    lanes: async () => {
      if (!data.lanes) throw new Error("this file does not say it");
      return unpackLanes(await unzip(data.lanes));
    },
    samples: null,
  };
}

/**
 * @param {string} url
 * @param {AbortSignal} [signal] to abort the request
 * @returns {Promise<Response>}
 * @throws {Error} with the text of the server
 */
async function request(url, signal) {
  let response;
  try {
    response = await fetch(url, { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("the server does not answer: is `l5kit view` still running?");
  }
  if (!response.ok) throw new Error(await errorText(response));
  return response;
}

/**
 * Request data other than JSON: a blob or a picture. A JSON response is an error from the server, whatever its status.
 * @param {string} url
 * @param {AbortSignal} [signal] to abort the request, which the server then skips
 * @returns {Promise<Response>}
 * @throws {Error} with the text of the server
 */
export async function requestData(url, signal) {
  const response = await request(url, signal);
  if (response.headers.get("Content-Type")?.startsWith("application/json")) throw new Error(await errorText(response));
  return response;
}

/** @param {Response} response @returns {Promise<string>} */
async function errorText(response) {
  const body = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(body);
    if (typeof error === "string" && error) return error;
  } catch {
    // Not JSON: use the status.
  }
  return `the server answered ${response.status} ${response.statusText}`.trim();
}

/** @param {Record<string, string | null>} values @returns {string} "?a=b", without null values */
function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null);
  if (!given.length) return "";
  return `?${new URLSearchParams(/** @type {[string, string][]} */ (given))}`;
}

/** @param {string} base64 of gzip @returns {Promise<ArrayBuffer>} */
async function unzip(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
