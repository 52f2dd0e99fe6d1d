// @ts-check
/** Replays lists of keys with the page's own step: `node replay.js SCENE ROAD KEYS POLICY`, all files, and prints JSON. */

import { readFileSync } from "node:fs";
import { argv, stdout } from "node:process";
import { DriveJudge } from "l5kit/drive/judge";
import { PolicyPlanner } from "l5kit/drive/policy_planner";
import { Road } from "l5kit/drive/road";
import { DriveSimulation } from "l5kit/drive/simulation";
import { unpack } from "l5kit/unpack";

/** @param {string} path @returns {any} */
function unpackFile(path) {
  const bytes = readFileSync(path);
  return unpack(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

const [, , scenePath, roadPath, keysPath, policyPath] = argv;
const scene = unpackFile(scenePath);
const drives = JSON.parse(readFileSync(keysPath, "utf-8")).map((/** @type {number[]} */ keys) => {
  const simulation = new DriveSimulation(scene);
  const judge = new DriveJudge(simulation, new Road(unpackFile(roadPath)));
  const planner = new PolicyPlanner(unpackFile(policyPath), simulation);
  /** @type {any} */
  const [plans, seen, actions, policyPlans] = [[], [], [], []];
  for (const held of keys) {
    if (simulation.frame < 30 || simulation.frame % 10 === 0) {
      plans.push(simulation.plan());
      policyPlans.push(planner.plan());
      const look = planner.sight.look(/** @type {any} */ (simulation.avPath));
      seen.push([...look.seen]);
      actions.push([...planner.network.act(look.seen)]);
    }
    simulation.step(held);
    judge.look();
  }
  const egos = simulation.frames.map(({ ego, vehicle }) => [
    vehicle.x,
    vehicle.y,
    vehicle.yaw,
    vehicle.speed,
    vehicle.acceleration,
    vehicle.steering,
    ego.across,
  ]);
  const agents = simulation.frames.map(({ rows }) =>
    rows.map(({ track, x, y, yaw, vx, vy }) => [track, x, y, yaw, vx, vy]),
  );
  return { egos, agents, plans, seen, actions, policyPlans, ...judge.report() };
});
stdout.write(
  JSON.stringify(drives, (_, value) => (Number.isFinite(value) || typeof value !== "number" ? value : String(value))),
);
