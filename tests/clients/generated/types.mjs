// Writes the types of the document at argv[2] to argv[3]; a file is a Blob instead of a string.
import { writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const BLOB = ts.factory.createTypeReferenceNode("Blob");
const transform = (schema) => (schema.format === "binary" ? BLOB : undefined);
await writeFile(process.argv[3], astToString(await openapiTS(new URL(process.argv[2]), { transform })));
