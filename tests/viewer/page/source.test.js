import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { openSource, requestData } from "l5kit/source";
import { blob } from "./scenes.js";

const FACTS = { name: "a.zarr", num_scenes: 2, has_map: true, sample_kinds: ["semantic", "satellite"] };
const SCENE = blob({ scene_index: 1 }, { time_s: ["float32", [2], Float32Array.of(0, 0.1)] });
const JSON_TYPE = { headers: { "Content-Type": "application/json" } };
const fetchOfNode = globalThis.fetch;

describe("a server", () => {
  let asked;
  let answers;

  beforeEach(() => {
    asked = [];
    answers = {};
    globalThis.document = { getElementById: () => null };
    globalThis.fetch = async (url) => {
      asked.push(url);
      if (!(url in answers)) throw new TypeError("fetch failed");
      return answers[url]();
    };
  });
  afterEach(() => {
    delete globalThis.document;
    globalThis.fetch = fetchOfNode;
  });

  test("is asked once for the facts, which tell whether there is a map and which samples", async () => {
    answers["api/dataset"] = () => Response.json({ ...FACTS, has_map: false });
    const source = openSource();
    assert.equal((await source.dataset()).name, "a.zarr");
    assert.equal(await source.map(), null);
    assert.deepEqual(source.samples?.kinds, ["semantic", "satellite"]);
    assert.deepEqual(asked, ["api/dataset"]);
    assert.equal(await source.onlyScene(), null);
    assert.ok(!source.exported);
  });
  test("sends scenes and the map as blobs", async () => {
    answers["api/dataset"] = () => Response.json(FACTS);
    answers["api/scene/1"] = answers["api/map"] = () => new Response(SCENE);
    const source = openSource();
    assert.deepEqual((await source.scene(1)).facts, { scene_index: 1 });
    assert.ok((await source.map())?.facts);
  });
  test("has drives of simulations only", async () => {
    answers["api/dataset"] = () => Response.json({ ...FACTS, run: null });
    assert.equal(await openSource().drive(1), null);
    answers["api/dataset"] = () => Response.json({ ...FACTS, run: { planner: "idm" } });
    answers["api/drive/1"] = () => new Response(SCENE);
    assert.deepEqual((await openSource().drive(1))?.facts, { scene_index: 1 });
  });
  test("has addresses for samples; track ids are texts, for they are too long for numbers", () => {
    const { samples } = openSource();
    const id = "18446744073709551615";
    assert.equal(samples?.rasterUrl(3, 7, null, "py_semantic"), "api/raster/3/7?kind=py_semantic");
    assert.equal(samples?.rasterUrl(3, 7, id, "a b"), `api/raster/3/7?track=${id}&kind=a+b`);
    assert.equal(samples?.vectorUrl(3, 7, null), "api/vector/3/7");
  });

  const errors = [
    ["says what is wrong", () => Response.json({ error: "no scene 9" }, { status: 404 }), "no scene 9"],
    ["sends an error that it foresaw", () => new Response('{"error": "gone"}', { status: 200, ...JSON_TYPE }), "gone"],
    [
      "sends something odd",
      () => new Response("<p>", { status: 502, statusText: "Bad" }),
      "the server answered 502 Bad",
    ],
    ["says nothing", () => Response.json({ error: "" }, { status: 500 }), "the server answered 500"],
  ];
  for (const [name, answer, text] of errors) {
    test(`that ${name} becomes an error with its text`, async () => {
      answers["api/scene/9"] = answer;
      await assert.rejects(openSource().scene(9), { message: text });
    });
  }
  test("that is gone is told", async () => {
    await assert.rejects(openSource().scene(9), /is `l5kit view` still running\?/);
  });
  test("a question that was given up keeps its own error", async () => {
    await assert.rejects(requestData("api/x", AbortSignal.abort()), { message: "fetch failed" });
  });
});

describe("an exported file", () => {
  beforeEach(() => {
    const scene = gzipSync(new Uint8Array(SCENE)).toString("base64");
    const content = { dataset: FACTS, scenes: { num_frames: [2] }, scene_index: 1, scene, map: null };
    globalThis.document = { getElementById: () => ({ textContent: JSON.stringify(content) }) };
  });
  afterEach(() => {
    delete globalThis.document;
  });

  test("holds one scene and no samples", async () => {
    const source = openSource();
    assert.ok(source.exported);
    assert.equal(await source.onlyScene(), 1);
    const { arrays } = await source.scene(1);
    assert.deepEqual([...arrays.time_s], [0, Math.fround(0.1)]);
    assert.equal(await source.map(), null);
    assert.equal(await source.drive(1), null);
    assert.equal(source.samples, null);
    await assert.rejects(source.scene(0), { message: "this file holds scene 1 only, not scene 0" });
  });
});
