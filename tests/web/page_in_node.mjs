// Runs the scripts of the page in Node, on a small document of its own, with the real service behind `fetch`.
// argv: the folder of the scripts, the address of the service, an API key, and pictures to add. Prints what the page shows.
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

class Node {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, dataset: {}, parentElement: null, hidden: false });
    this.classList = { toggle() {} };
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  hasChildNodes() { return this.children.length > 0; }
  append(...nodes) { for (const node of nodes) this.insertBefore(node, null); }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  insertBefore(node, before) {
    node.parentElement?.children.splice(node.parentElement.children.indexOf(node), 1);
    this.children.splice(before === null ? this.children.length : this.children.indexOf(before), 0, node);
    if (node instanceof Node) node.parentElement = this;
  }
  contains(node) { return node === this || this.children.some((child) => child instanceof Node && child.contains(node)); }
  querySelector(selector) {
    if (selector !== ":scope > :not([data-needs-text])") throw new Error(`unknown selector ${selector}`);
    return this.children.find((child) => child.dataset.needsText === undefined) ?? null;
  }
  get textContent() { return this.children.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.children = text === "" ? [] : [text]; }
  * all() { for (const child of this.children) if (child instanceof Node) { yield child; yield* child.all(); } }
}

const [scripts, service, key, ...files] = process.argv.slice(2);
const ids = {};
globalThis.document = {
  createElement: (tag) => new Node(tag),
  getElementById: (id) => (ids[id] ??= new Node("div")),
  activeElement: null,
};
globalThis.localStorage = { getItem: () => JSON.stringify({ id: "id", key }), setItem() {}, removeItem() {} };
const fetchAbsolute = globalThis.fetch;
globalThis.fetch = (path, { cache, credentials, ...init } = {}) => fetchAbsolute(service + path, init);

const pictures = await import(pathToFileURL(join(scripts, "pictures.js")));
pictures.prepare({ overview: { max_upload_bytes: 25 * 1024 * 1024 } });
await pictures.addEarlier();
const added = await Promise.all(files.map(async (file) => new File([await readFile(file)], basename(file))));
pictures.add(added, { languages: ["en", "de"], format: "webp" });
for (let tries = 0; tries < 600 && ids.progress.value < added.length; tries += 1) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}

const shown = (list) => document.getElementById(list).children.map((card) => {
  const nodes = [...card.all()];
  const withClass = (name) => nodes.filter(({ attributes }) => (attributes.class ?? "").split(" ").includes(name));
  return {
    name: nodes.find(({ tag }) => tag === "h3").textContent,
    state: withClass("state")[0].textContent,
    marks: withClass("needs-text").map(({ textContent }) => textContent),
    texts: withClass("text").map(({ textContent }) => textContent),
    copies: nodes.filter(({ tag }) => tag === "button").map(({ attributes }) => attributes["aria-label"]),
  };
});
process.stdout.write(JSON.stringify({ cards: shown("cards"), earlier: shown("earlier-cards"), progress: ids["progress-text"].textContent }));
process.exit(0);
