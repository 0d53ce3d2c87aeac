// Unpacks a ZIP file into a folder that the user has chosen, while the service sends it. The file is never whole in memory.
//
// It reads only the kind of ZIP file that the service writes: entries are stored (uncompressed), with their size in the header.
// Source: PKWARE APPNOTE 6.3.10, sections 4.3.7 to 4.3.9.

const LOCAL_HEADER = 0x04034b50;
const HEADER_BYTES = 30;
const WITH_DESCRIPTOR = 0x0008; // the flag of an entry whose size follows its data

/** Reads bytes from a response, as many at a time as are asked for. */
class ByteReader {
  #reader;
  #rest = new Uint8Array(0);

  constructor(response) {
    this.#reader = response.body.getReader();
  }

  /** Up to `limit` bytes; empty at the end. */
  async upTo(limit) {
    if (this.#rest.length === 0) {
      const { value, done } = await this.#reader.read();
      if (done) return this.#rest;
      this.#rest = value;
    }
    const part = this.#rest.subarray(0, limit);
    this.#rest = this.#rest.subarray(part.length);
    return part;
  }

  /** Exactly `count` bytes as a DataView. Throws if there are fewer. */
  async exactly(count) {
    const whole = new Uint8Array(count);
    for (let filled = 0; filled < count; ) {
      const part = await this.upTo(count - filled);
      if (part.length === 0) throw new Error("The download ended early. Export again.");
      whole.set(part, filled);
      filled += part.length;
    }
    return new DataView(whole.buffer);
  }
}

/** A new folder in `parent`, called `name` or `name 2`, `name 3` …, so that no file of the user is overwritten. */
export async function newFolder(parent, name) {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name} ${number}`;
    try {
      await parent.getDirectoryHandle(candidate);
    } catch (error) {
      if (error.name === "NotFoundError") return parent.getDirectoryHandle(candidate, { create: true });
      if (error.name !== "TypeMismatchError") throw error; // that error means that a file has this name
    }
  }
}

/** Write the files of the ZIP file `response` into `folder`. `onFile(count)` is called after each. Returns how many there were. */
export async function unpackInto(folder, response, onFile) {
  if (!response.ok) throw new Error(`The service responded with status ${response.status}. Export again.`);
  const source = new ByteReader(response);
  for (let count = 0; ; count += 1) {
    const signature = await source.exactly(4);
    if (signature.getUint32(0, true) !== LOCAL_HEADER) {
      while ((await source.upTo(65_536)).length > 0); // the central directory repeats what was read
      return count;
    }
    const header = await source.exactly(HEADER_BYTES - 4); // after the signature: offsets are 4 less than in the specification
    const flags = header.getUint16(2, true);
    const method = header.getUint16(4, true);
    const name = new TextDecoder().decode(await source.exactly(header.getUint16(22, true)));
    await source.exactly(header.getUint16(24, true)); // extra fields, which hold nothing that is needed here
    if (method !== 0 || flags & WITH_DESCRIPTOR) throw new Error("The ZIP file can't be unpacked here: download it instead.");
    await writeFile(folder, name, source, header.getUint32(14, true));
    onFile(count + 1);
  }
}

async function writeFile(folder, name, source, size) {
  const parts = name.split("/").filter((part) => part !== "" && part !== "." && part !== "..");
  if (parts.length === 0) return;
  const file = parts.pop();
  for (const part of parts) folder = await folder.getDirectoryHandle(part, { create: true });
  if (name.endsWith("/")) {
    await folder.getDirectoryHandle(file, { create: true });
    return;
  }
  const writable = await (await folder.getFileHandle(file, { create: true })).createWritable();
  try {
    for (let left = size; left > 0; ) {
      const part = await source.upTo(left);
      if (part.length === 0) throw new Error("The download ended early. Export again.");
      await writable.write(part);
      left -= part.length;
    }
    await writable.close();
  } catch (error) {
    await writable.abort();
    throw error;
  }
}
