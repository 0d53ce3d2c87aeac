// Encodes with sharp in one thread, so that CPU time can be compared. It reads one task per line and writes one answer per
// line, both JSON; the first line that it writes is the version. Argument: the folder that has node_modules.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";

const sharp = createRequire(path.join(path.resolve(process.argv[2]), "here.js"))("sharp");
sharp.concurrency(1);
sharp.cache(false);

async function encode({ source, result, format, options }) {
  const before = process.cpuUsage();
  const data = await sharp(source, { limitInputPixels: false }).rotate()[format](options).toBuffer();
  const { user, system } = process.cpuUsage(before);
  fs.writeFileSync(result, data);
  return { cpu_s: (user + system) / 1e6 };
}

// encoders are loaded at their first use, which must not count
const small = { create: { width: 64, height: 64, channels: 3, background: "teal" } };
for (const format of ["jpeg", "webp", "avif", "png"]) await sharp(small)[format]().toBuffer();

console.log(`sharp ${sharp.versions.sharp}, libvips ${sharp.versions.vips}`);
for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await encode(JSON.parse(line)).catch((error) => ({ error: String(error.message) }))));
}
