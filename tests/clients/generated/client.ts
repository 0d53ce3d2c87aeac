// process, poll, download and every kind of error with openapi-typescript and openapi-fetch.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];
const { BASE_URL = "", API_KEY = "", LIMITED_KEY = "", PICTURE = "", LARGE_FILE = "", OUT = "" } = process.env;

const clientFor = (key: string) => createClient<paths>({ baseUrl: BASE_URL, headers: { Authorization: `Bearer ${key}` } });
const client = clientFor(API_KEY);

/** The fields as multipart/form-data; a list is sent as a repeated field. */
function form(fields: object): FormData {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) for (const item of [value].flat()) data.append(name, item);
    return data;
}

async function fileOf(path: string): Promise<File> {
    return new File([await readFile(path)], basename(path));
}

// process -> poll -> download
const picture = await fileOf(PICTURE);
const fields: Schemas["ProcessFields"] = { image: picture, languages: ["en", "de"], format: "webp" };
const sent = await client.POST("/images/process", {
    body: fields,
    bodySerializer: form,
    params: { header: { "Idempotency-Key": "one upload" } },
});
assert(sent.data, sent.error?.message);
assert.match(sent.response.headers.get("Location") ?? "", new RegExp(`${sent.data.data.job_id}$`));

let job: Schemas["JobData"];
do {
    const polled = await client.GET("/jobs/{id}", {
        params: { path: { id: sent.data.data.job_id }, header: { Prefer: "wait=20" } },
    });
    assert(polled.data, polled.error?.message);
    job = polled.data.data;
} while (job.status !== "completed" && job.status !== "failed");
assert.equal(job.status, "completed");
assert.equal(job.image.converted_format, "webp");
await writeFile(join(OUT, "job.json"), JSON.stringify({ data: job }));

const id = { path: { id: job.image.id } };
for (const [path, name] of [["optimized", "optimized.jpg"], ["converted", "converted.webp"]] as const) {
    const file = await client.GET(`/images/{id}/${path}`, { params: id, parseAs: "blob" });
    assert(file.data);
    await writeFile(join(OUT, name), Buffer.from(await file.data.arrayBuffer()));
}

// lists, texts, archives
const listed = await client.GET("/jobs", { params: { query: { needs_text: "true", limit: 1, include: "details" } } });
assert(listed.data);
assert.equal(listed.data.data[0]?.image.details?.operation, "process");
assert.equal(listed.data.data[0]?.image.translations[0]?.long_description, "");
assert.equal(listed.data.next_cursor, null);

const body: Schemas["TranslationEdit"] = { seo_alt_text: "A lighthouse by the sea." };
const edited = await client.PATCH("/images/{id}/translations/{lang}", {
    params: { path: { id: job.image.id, lang: "en" } },
    body,
});
assert(edited.data);
assert.deepEqual([edited.data.data.source, edited.data.data.needs_text_reason], ["person", null]);

const preview = await client.POST("/exports", { body: { images: [job.image.id], dry_run: true } });
assert(preview.data && "data" in preview.data);
assert.equal(preview.data.data.needs_text[0]?.languages[0], "de");
const refused = await client.POST("/exports", { body: { images: [job.image.id] } });
assert(refused.error && "needs_text" in refused.error);
const archive = await client.POST("/exports", { body: { allow_needs_text: true }, parseAs: "blob" });
assert(archive.data instanceof Blob);
assert.equal(await archive.data.slice(0, 2).text(), "PK");

// errors
const stranger = await clientFor("imgp_wrong").GET("/credits/balance");
assert.deepEqual([stranger.response.status, stranger.error?.message], [401, "Unauthenticated."]);

const languages: Schemas["ProcessFields"]["languages"] = ["en", "de", "fr", "es", "it", "nl", "pl", "pt", "sv", "da"];
const poor = await client.POST("/images/process", { body: { image: picture, languages }, bodySerializer: form });
assert(poor.error && "shortfall" in poor.error);
assert(poor.response.status === 402 && poor.error.shortfall > 0);

const large = await client.POST("/images/optimize", { body: { image: await fileOf(LARGE_FILE) }, bodySerializer: form });
assert.equal(large.response.status, 413);
assert.match(large.error?.message ?? "", /bytes/);

const invalid = await client.POST("/images/optimize", { body: { image: new File(["text"], "a.jpg") }, bodySerializer: form });
assert(invalid.error && "errors" in invalid.error);
assert(invalid.response.status === 422 && invalid.error.errors["image"]?.length === 1);

const limited = clientFor(LIMITED_KEY);
await limited.GET("/credits/balance");
const fast = await limited.GET("/credits/balance");
assert(fast.error && "retry_after" in fast.error);
assert(fast.response.status === 429 && fast.error.retry_after > 0);

const unknown = await client.GET("/jobs/{id}", { params: { path: { id: "0".repeat(26) } } });
assert.equal(unknown.response.status, 404);
assert.notEqual(unknown.error?.message, "");

const analyzed = await client.POST("/images/analyze", { body: { image: picture }, bodySerializer: form });
assert(analyzed.data);
const only = await client.GET("/jobs/{id}", { params: { path: { id: analyzed.data.data.job_id } } });
const absent = await client.GET("/images/{id}/optimized", { params: { path: { id: only.data?.data.image.id ?? "" } } });
assert(absent.error && "error" in absent.error);
assert(absent.response.status === 404 && absent.error.error !== "");

// a repeated dispatch
const again = await client.POST("/images/process", {
    body: fields,
    bodySerializer: form,
    params: { header: { "Idempotency-Key": "one upload" } },
});
assert.equal(again.data?.data.job_id, job.job_id);
