// The card of one picture. An update changes only the elements whose content changed, so that focus and selection are
// preserved.

import { bytes, copyButton, el } from "./dom.js";

const THUMBNAIL_PX = 240;
const STAGES = [
  { name: "analyze", label: "Alt text", verb: "analyzing", done: (image) => image.translations.length > 0 },
  { name: "optimize", label: "Optimization", verb: "optimizing", done: (image) => image.optimized_size !== null },
  { name: "convert", label: "Conversion", verb: "converting", done: (image) => image.converted_size !== null },
];
const VERBS = { analyzing: "Writing alt texts", optimizing: "Optimizing", converting: "Converting" };
const MARKS = { waiting: "○", running: "◐", done: "✓", failed: "✕" };
const SOURCES = {
  vision: "written by the vision model",
  facts: "made from words in the metadata",
  pixels: "nothing but the kind of picture, its colours and date is known",
  embedded: "from the metadata of the file",
  person: "written by a person",
};

const BUTTON_ORDER = ["optimized", "converted", "retry", "remove"];
const ROW_ORDER = ["original", "optimized", "converted"];

/** Whether a person has to write an alt text of `image`. */
export const needsText = (image) => image.translations.some((translation) => translation.needs_text);

export const isFinal = (status) => ["completed", "done", "failed"].includes(status);

export class Card {
  /**
   * The card of a file, with its name and its size in bytes. `handlers` are called by the buttons: download(which), retry(),
   * remove(). `languageName(code)` returns the name of a language.
   */
  constructor(name, size, handlers, languageName) {
    this.handlers = handlers;
    this.languageName = languageName;
    this.buttons = {};
    this.thumb = el("div", { class: "thumb", "aria-hidden": "true" }, name.split(".").pop().slice(0, 4).toUpperCase());
    this.title = el("h3", { dir: "auto", tabindex: "-1" }, name);
    this.state = el("p", { class: "state" });
    this.waiting = el("p", { class: "hint", hidden: true });
    this.stages = Object.fromEntries(STAGES.map((stage) => [stage.name, el("li")]));
    this.stageList = el("ol", { class: "stages", "aria-label": "Stages", hidden: true }, ...Object.values(this.stages));
    this.problems = el("ul", { class: "problems", hidden: true });
    this.sizes = el("dl", { class: "sizes" });
    this.rows = {};
    this.addSize("original", "Original", bytes(size));
    this.texts = el("div", { class: "texts" });
    this.actions = el("div", { class: "actions" });
    this.node = el("li", { class: "card" }, this.thumb, el("div", { class: "facts" },
      this.title, this.state, this.waiting, this.stageList, this.problems, this.sizes, this.texts, this.actions));
    this.button("remove", "Delete", `Delete ${name}`, () => handlers.remove());
    this.name = name;
  }

  /** Add a button at its place in `BUTTON_ORDER`. Does nothing if it exists. */
  button(id, label, fullLabel, onclick) {
    if (this.buttons[id]) return;
    this.buttons[id] = el("button", { type: "button", "aria-label": fullLabel, onclick }, label);
    insertInOrder(this.actions, BUTTON_ORDER, this.buttons, id);
  }

  /** Add a row to the list of file sizes, at its place in `ROW_ORDER`. */
  addSize(id, label, ...content) {
    this.rows[id] = el("div", {}, el("dt", {}, label), el("dd", {}, ...content));
    insertInOrder(this.sizes, ROW_ORDER, this.rows, id);
  }

  removeButton(id) {
    this.buttons[id]?.remove();
    delete this.buttons[id];
  }

  setState(state, text) {
    this.node.dataset.state = state;
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  showWaiting(text) {
    this.waiting.hidden = !text;
    this.waiting.textContent = text ?? "";
  }

  /** Show an error outside the job: the picture could not be sent, or its job could not be followed. */
  fail(message, canRetry) {
    this.setState("failed", "Failed");
    this.showWaiting(null);
    this.listProblems([message]);
    if (canRetry) this.button("retry", "Try again", `Try ${this.name} again`, () => this.handlers.retry());
  }

  /** Show the picture as not sent yet. */
  reset() {
    this.removeButton("retry");
    this.listProblems([]);
    this.stageList.hidden = true;
    this.setState("waiting", "Waiting to be sent");
  }

  listProblems(messages) {
    this.problems.hidden = messages.length === 0;
    this.problems.replaceChildren(...messages.map((message) => el("li", {}, message)));
  }

  /** Show the state and the results of `job`, as the API describes it. */
  show(job, canRetry) {
    const { image, status } = job;
    const errors = job.errors ?? [];
    this.showState(status, image);
    this.stageList.hidden = false;
    for (const stage of STAGES) this.showStage(stage, job, errors);
    if (status === "failed") {
      this.listProblems(errors.map(({ stage, message }) => `${STAGES.find(({ name }) => name === stage).label}: ${message}`));
      if (canRetry) this.button("retry", "Try again", `Try ${this.name} again`, () => this.handlers.retry());
    }
    this.showSizes(image);
    if (image.translations.length > 0 && !this.texts.hasChildNodes()) {
      const ofPerson = image.translations.filter(({ needs_text: needsText }) => needsText);
      const others = image.translations.filter(({ needs_text: needsText }) => !needsText);
      this.texts.append(...[...ofPerson, ...others].map((translation) => this.text(translation)));
    }
  }

  showState(status, image) {
    if (status === "pending") this.setState("waiting", "Queued");
    else if (status === "failed") {
      const hasResult = STAGES.some((stage) => stage.done(image));
      this.setState("failed", hasResult ? "Partly done" : "Failed");
    } else if (isFinal(status)) this.setState("done", needsText(image) ? "Done, but needs text" : "Done");
    else {
      // the status names the stage that started last; other stages may still run after it is done
      const latest = STAGES.find(({ verb }) => verb === status);
      this.setState("running", latest && !latest.done(image) ? `${VERBS[status]}…` : "Processing…");
    }
  }

  showStage(stage, job, errors) {
    let state = "waiting";
    if (stage.done(job.image)) state = "done";
    else if (errors.some((error) => error.stage === stage.name)) state = "failed";
    else if (job.status === stage.verb) state = "running";
    const node = this.stages[stage.name];
    if (node.dataset.state === state) return;
    node.dataset.state = state;
    node.replaceChildren(el("span", { "aria-hidden": "true" }, MARKS[state]), ` ${stage.label}`, el("span", { class: "visually-hidden" }, `: ${state}`));
  }

  showSizes(image) {
    if (image.optimized_size !== null && !this.buttons.optimized) {
      this.addSize("optimized", "Optimized", ...change(image.original_size, image.optimized_size, image.compression_percentage));
      this.button("optimized", "Download optimized", `Download optimized ${this.name}`, () => this.handlers.download("optimized"));
    }
    if (image.converted_size !== null && !this.buttons.converted) {
      const format = image.converted_format === "avif" ? "AVIF" : "WebP";
      const percentage = Math.round(100 * (1 - image.converted_size / image.original_size));
      this.addSize("converted", format, ...change(image.original_size, image.converted_size, percentage));
      this.button("converted", `Download ${format}`, `Download ${this.name} as ${format}`, () => this.handlers.download("converted"));
    }
  }

  /** The texts in one language. An alt text that a person has to write can't be copied. */
  text({ language_code: code, seo_filename: filename, seo_alt_text: altText, source, needs_text: needsText }) {
    const language = this.languageName(code);
    const mark = needsText ? [" ", el("span", { class: "tag needs-text" }, "needs text")] : [];
    return el("div", { class: "text", role: "group", "aria-label": language },
      el("p", { class: "language" }, el("strong", {}, language), ...mark, ` – ${SOURCES[source] ?? source}`),
      el("p", { class: needsText ? "alt hint" : "alt", lang: code, dir: "auto" }, altText),
      needsText ? el("span") : copyButton("Copy", `alt text in ${language}`, () => altText),
      el("p", {}, el("code", { dir: "ltr" }, filename)),
      copyButton("Copy", `file name in ${language}`, () => filename));
  }

  /** Draw a thumbnail. The placeholder remains if the browser can't decode the file. */
  async drawThumbnail(file) {
    let bitmap;
    try {
      bitmap = await createImageBitmap(file, { resizeWidth: THUMBNAIL_PX, resizeQuality: "medium" });
    } catch {
      return; // the service reports what is wrong with the file
    }
    const canvas = el("canvas", { width: bitmap.width, height: bitmap.height });
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    bitmap.close();
    this.thumb.replaceChildren(canvas);
  }
}

/** Insert `nodes[id]` into `parent` before the nodes that follow it in `order`. No other node moves, so the focus is preserved. */
function insertInOrder(parent, order, nodes, id) {
  const after = order.slice(order.indexOf(id) + 1).find((other) => nodes[other]);
  parent.insertBefore(nodes[id], after ? nodes[after] : null);
}

/** The size before and after, in bytes, and the change in words. `percentage` is the share of bytes saved. */
function change(before, after, percentage) {
  if (after === before) return [bytes(after), " ", el("span", { class: "hint" }, "can't be made smaller")];
  const word = percentage > 0 ? `${percentage} % smaller` : percentage < 0 ? `${-percentage} % larger` : "about the same";
  return [`${bytes(before)} → ${bytes(after)} `, el("strong", { class: percentage > 0 ? "saved" : "hint" }, word)];
}
