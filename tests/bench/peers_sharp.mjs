// Encodes with sharp, one picture after the other in one thread, so that CPU time and memory can be told apart.
// One task per line comes in, one answer per line goes out, both JSON; the first line says which sharp this is.
// Argument: the folder that holds node_modules, or that folder itself; NODE_PATH is looked through, too.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";

let sharp;
try {
  sharp = createRequire(path.join(path.resolve(process.argv[2]), "here.js"))("sharp");
} catch (error) {
  console.error(`sharp does not load: ${String(error.message).split("\n")[0]}`);
  process.exit(1);
}
sharp.concurrency(1);
sharp.cache(false);

const STATUS = "/proc/self/status"; // Linux; elsewhere the peak is of the whole process so far

function forgetPeak() {
  if (fs.existsSync(STATUS)) fs.writeFileSync("/proc/self/clear_refs", "5");
}

function peakBytes() {
  if (!fs.existsSync(STATUS)) return process.resourceUsage().maxRSS * 1024;
  return Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync(STATUS, "latin1"))[1]) * 1024;
}

async function encode({ source, result, format, options }) {
  forgetPeak();
  const before = process.cpuUsage();
  const input = sharp(source, { failOn: "error", limitInputPixels: false, animated: format === "gif" });
  const upright = format === "gif" ? input : input.rotate();
  const data = await upright[format](options).toBuffer();
  const { user, system } = process.cpuUsage(before);
  const answer = { cpu_s: (user + system) / 1e6, peak_bytes: peakBytes() };
  fs.writeFileSync(result, data);
  return answer;
}

// what loads late is loaded now, at nobody's cost
const small = { create: { width: 64, height: 64, channels: 3, background: "teal" } };
for (const format of ["jpeg", "png", "webp", "avif"]) await sharp(small)[format]().toBuffer();

console.log(JSON.stringify({ version: `sharp ${sharp.versions.sharp}, libvips ${sharp.versions.vips}` }));
for await (const line of readline.createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = await encode(JSON.parse(line));
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  console.log(JSON.stringify(answer));
}
