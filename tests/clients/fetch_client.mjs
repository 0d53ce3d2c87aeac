// process, poll, download with fetch and FormData. BASE_URL, API_KEY, PICTURE and OUT come from the environment.
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

const { BASE_URL, API_KEY, PICTURE, OUT } = process.env;

async function call(path, init = {}) {
    const headers = { Authorization: `Bearer ${API_KEY}` };
    const answer = await fetch(BASE_URL + path, { ...init, headers, signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer;
}

const form = new FormData();
form.append("image", new Blob([await readFile(PICTURE)]), basename(PICTURE));
form.append("languages", "en");
form.append("languages", "de");
form.append("format", "webp");
const { data: { job_id } } = await (await call("/images/process", { method: "POST", body: form })).json();

let body;
for (let tries = 0; tries < 120; tries++) {
    body = await (await call(`/jobs/${job_id}`)).json();
    if (["completed", "failed"].includes(body.data.status)) break;
    await new Promise((resolve) => setTimeout(resolve, 500));
}
if (body.data.status !== "completed") throw new Error(`the job did not complete: ${JSON.stringify(body)}`);
await writeFile(join(OUT, "job.json"), JSON.stringify(body));

for (const [which, name] of [["optimized", "optimized.jpg"], ["converted", "converted.webp"]]) {
    const answer = await call(`/images/${body.data.image.id}/${which}`);
    await writeFile(join(OUT, name), Buffer.from(await answer.arrayBuffer()));
}
