// @ts-check
/** Files of the page, written by `l5kit drive`: the list of scenes, and their data. */

import { unpack, unpackMap } from "l5kit/unpack";

const GZIP = [0x1f, 0x8b];

/**
 * @typedef {object} DriveScene
 * @property {number} scene its number in the log
 * @property {number} duration_s
 * @property {number} agents_per_frame
 * @property {string} file
 */
/**
 * @typedef {object} DriveFolder
 * @property {string} name
 * @property {string} log
 * @property {string | null} digest
 * @property {string} map
 * @property {string} road
 * @property {{name: string, file: string} | null} policy policy whose plan can be shown
 * @property {DriveScene[]} scenes
 */

/** @returns {Promise<DriveFolder>} */
export async function readFolder() {
  return (await request("data/drives.json")).json();
}

/** @param {string} file @returns {Promise<{facts: any, arrays: any, shapes: Record<string, number[]>}>} */
export async function readArrays(file) {
  return unpack(await readBytes(file));
}

/** @param {string} file @returns {Promise<import("l5kit/unpack").PackedMap>} */
export async function readMap(file) {
  return unpackMap(await readBytes(file));
}

/** @param {string} file @returns {Promise<ArrayBuffer>} decompressed, unless the server has done so */
async function readBytes(file) {
  const content = await (await request(`data/${file}`)).arrayBuffer();
  const [first, second] = new Uint8Array(content, 0, 2);
  if (first !== GZIP[0] || second !== GZIP[1]) return content;
  const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** @param {string} url @returns {Promise<Response>} */
async function request(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the server answered ${response.status} for ${url}`);
  return response;
}
