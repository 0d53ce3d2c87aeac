// The view "Models": which model describes pictures, and installing, using and removing models.

import { html, useEffect, useId, useRef } from "./preact.js";
import { Describe, secondsPerPicture } from "./describe.js";
import { bytes } from "./format.js";
import { announce, confirmed } from "./messages.js";
import { local } from "./service.js";
import { Fact, Panel, Problem, useAction, useLoaded, withCode } from "./view-parts.js";

const NOT_INSTALLED = ["available", "paused", "failed", "installing"];
const FOCUS_DELAY_MS = 60; // time for the list to be rendered again
// a name in another program may have slashes, which one path segment can't hold even if they are encoded once
const pathOf = (name) => encodeURIComponent(encodeURIComponent(name));

/** Focus the progress or a heading if the focused element was removed, such as the button that was pressed. */
function keepFocus() {
  setTimeout(() => {
    if (document.activeElement !== document.body) return;
    (document.getElementById("in-progress") ?? document.getElementById("in-use-title"))?.focus();
  }, FOCUS_DELAY_MS);
}

/** Shows the view. `app` has the functions of the page, see app.js. */
export function ModelsView({ app }) {
  const ended = (task, failure) => {
    const done = task.kind === "test" ? `${task.name} works and is in use.` : `${task.name} is installed.`;
    announce(task.is_cancelled ? `${task.name} was stopped.` : failure ? `${task.name} failed: ${failure}` : done);
    app.refresh();
    keepFocus();
  };
  const { data, problem, reload } = usePolledModels(ended);
  // `started` is the task that the request starts or cancels: it may end before the answer arrives
  const action = useAction(async (method, path, started = null) => {
    const accepted = await local(method, path);
    await reload(accepted?.task ?? started);
    app.refresh();
    keepFocus();
    return accepted ?? {};
  });
  const actions = {
    isBusy: action.busy,
    install: (name) => action.run("POST", `/models/${pathOf(name)}/install`, { kind: "install", name }),
    cancel: (task) => action.run("POST", `/models/${pathOf(task.name)}/cancel`, { ...task, is_cancelled: true }),
    async use(name) {
      const accepted = await action.run("POST", `/models/${pathOf(name)}/use`);
      if (accepted && !accepted.task) announce(name === "none" ? "No model is in use." : `${name} is in use from the next picture on.`);
    },
    async remove({ name, size_bytes: size }) {
      const text = `This frees ${bytes(size)}. To use it again, it has to be installed again.`;
      if (!(await confirmed({ title: `Remove ${name}?`, text, yes: "Remove" }))) return;
      if (await action.run("DELETE", `/models/${pathOf(name)}`)) announce(`${name} was removed.`);
    },
  };
  return html`
    <${Panel} title="Models" problem=${problem} loading=${!data}
      intro="A vision model looks at a picture and writes its alt text and file name. It runs on this machine: no picture is sent anywhere.">
      ${data && html`
        <${InUse} data=${data} actions=${actions} />
        <${Describe} describedBy=${app.overview.described_by} />
        <${Problem} text=${action.problem} />
        ${data.task && html`<section id="in-progress" class="sheet" tabindex="-1" aria-label="In progress">
          <${TaskProgress} task=${data.task} onCancel=${() => actions.cancel(data.task)} /></section>`}
        <${ModelList} title="Installed" data=${data} actions=${actions} includes=${({ state, program }) => !program && !NOT_INSTALLED.includes(state)} />
        <${ModelList} title="In other programs on this machine" data=${data} actions=${actions} includes=${({ program }) => program} />
        ${!data.air_gapped && html`<p class="hint">Models in Ollama, LM Studio and llama-server on this machine are listed while these programs run.</p>`}
        <${ModelList} title="Can be installed" data=${data} actions=${actions} includes=${({ state }) => NOT_INSTALLED.includes(state)} />
        <p class="hint">To install a model from files, run <code>imgproc-local models import</code> on this machine.</p>`}
    </${Panel}>`;
}

/** The model in use, and what prevents the use of models. */
function InUse({ data, actions }) {
  const used = data.models.find((model) => model.in_use);
  const fixed = data.fixed_by_setting;
  return html`
    <section class="sheet in-use" aria-labelledby="in-use-title">
      <h3 id="in-use-title" tabindex="-1">In use: ${used ? used.name : "no model"}</h3>
      <p>${used
        ? used.problem
          ? "It does not work now, so texts and names are written from the metadata of each file, without looking at the picture."
          : "The next picture is described by this model. A text that a person wrote into the file is always preferred."
        : "Texts and names are written from the metadata of each file: titles, captions, keywords, places. Pictures without such words need a text from you."}</p>
      <${Problem} text=${used?.problem} />
      <${Warning} text=${data.runtime_problem && `No model can run here: ${data.runtime_problem}`} />
      <${Warning} text=${data.folder_problem} />
      <${Warning} text=${data.air_gapped && "This service is air-gapped: it downloads nothing, and models in other programs are not used. Run `imgproc-local models import` to install a model from files."} />
      <${Warning} text=${fixed && `The setting \`model\` is “${fixed}” and decides which model is used. Remove that setting and start the service again to choose here.`} />
      ${used && !fixed && html`<div class="actions"><button type="button" disabled=${actions.isBusy} onClick=${() => actions.use("none")}>Use no model</button></div>`}
      <p class="hint">This machine has ${bytes(data.memory_bytes)} of memory, and ${bytes(data.free_bytes)} free on the disk of the models folder <code>${data.models_folder}</code>.</p>
    </section>`;
}

const Warning = ({ text }) => text ? html`<p class="warning">${withCode(text)}</p>` : null;

function ModelList({ title, data, includes, actions }) {
  const id = useId();
  const models = data.models.filter(includes);
  if (!models.length) return null;
  return html`
    <section aria-labelledby=${id} class="group">
      <h3 id=${id}>${title}</h3>
      <ul class="models" aria-labelledby=${id}>
        ${models.map((model) => html`<${Model} key=${model.name} model=${model} data=${data} actions=${actions} />`)}
      </ul>
    </section>`;
}

const timeText = (seconds) => (seconds === null ? "not measured yet" : `about ${seconds.toFixed(seconds < 5 ? 1 : 0)} s`);

function Model({ model, data, actions }) {
  const id = useId();
  const isReader = model.kind === "text-reader";
  return html`
    <li class="sheet model" aria-labelledby=${id}>
      <div class="model-head">
        <h4 id=${id}>${isReader ? "Text in pictures" : model.name}</h4>
        <${Tags} model=${model} />
      </div>
      ${isReader && html`<p class="hint">Reads signs, posters and screenshots, beside any model (<code>${model.name}</code>).</p>`}
      <dl class="facts">
        ${model.size_bytes > 0 && html`<${Fact} term=${NOT_INSTALLED.includes(model.state) ? "Download" : "On disk"}>${bytes(model.size_bytes)}</${Fact}>`}
        ${model.memory_bytes > 0 && html`<${Fact} term="Memory">${bytes(model.memory_bytes)}</${Fact}>`}
        ${!isReader && !NOT_INSTALLED.includes(model.state) && html`<${Fact} term="Time per picture">${timeText(secondsPerPicture(model.name))}</${Fact}>`}
        ${model.languages && html`<${Fact} term="Languages">${model.languages.replace(/^text: /, "")}</${Fact}>`}
        ${model.licence && html`<${Fact} term="Licence">${model.licence}</${Fact}>`}
        ${model.program && html`<${Fact} term="Program">${model.program}</${Fact}>`}
      </dl>
      ${!model.in_use && html`<${Problem} text=${model.problem} />`}
      <${ModelActions} model=${model} data=${data} actions=${actions} />
    </li>`;
}

const STATE_TAGS = {
  untested: ["warn", "not tested yet"], unusable: ["bad", "does not work here"], damaged: ["bad", "damaged"], failed: ["bad", "failed"],
  paused: ["warn", "paused"], installing: ["", "installing"], testing: ["", "testing"],
};

function Tags({ model }) {
  const tags = [];
  if (model.in_use) tags.push(["good", "in use"]);
  if (model.recommended && !model.in_use) tags.push(["good", "recommended for this machine"]);
  if (model.fits_memory === false) tags.push(["warn", "too large for this machine’s memory"]);
  if (model.state in STATE_TAGS) tags.push(STATE_TAGS[model.state]);
  return html`${tags.map(([kind, text]) => html`<span key=${text} class=${`tag ${kind}`}>${text}</span>`)}`;
}

function ModelActions({ model, data, actions }) {
  const { name, state } = model;
  const isOccupied = actions.isBusy || Boolean(data.task);
  const isReader = model.kind === "text-reader";
  const label = isReader ? "the reader of text in pictures" : name;
  if (state === "installing" || state === "testing") return null;
  if (NOT_INSTALLED.includes(state)) {
    const missing_bytes = model.size_bytes - model.downloaded_bytes;
    const cannotRun = !isReader && data.runtime_problem; // tests and pictures would fail
    const verb = !model.downloaded_bytes ? "Install" : state === "failed" && missing_bytes <= 0 ? "Try again" : "Resume";
    return html`
      <div class="actions">
        <button type="button" class=${model.recommended ? "main" : ""} disabled=${isOccupied || data.air_gapped || cannotRun} aria-label=${verb === "Try again" ? `Try to install ${label} again` : `${verb} ${label}`}
          onClick=${() => actions.install(name)}>${verb}${missing_bytes > 0 && `, ${bytes(missing_bytes)}`}</button>
        ${missing_bytes > data.free_bytes && html`<span class="problem">The disk has only ${bytes(data.free_bytes)} free.</span>`}
      </div>`;
  }
  const canUse = !isReader && !model.in_use && state !== "damaged" && !data.fixed_by_setting && !(data.runtime_problem && !model.program);
  return html`
    <div class="actions">
      ${canUse && html`<button type="button" disabled=${isOccupied} aria-label=${`Use ${name}`} onClick=${() => actions.use(name)}>
        ${state === "installed" || model.program ? "Use" : "Test and use"}</button>`}
      ${!model.program && !model.in_use && html`<button type="button" class="danger" disabled=${isOccupied} aria-label=${`Remove ${label}`} onClick=${() => actions.remove(model)}>Remove</button>`}
    </div>`;
}

// ---- what is installed or tested now ----

const POLL_MS = 1000;

const STEPS = {
  starting: "Connecting",
  downloading: "Downloading",
  verifying: "Verifying the files",
  testing: "Testing on this machine, which takes up to a few minutes",
};
const VERBS = { install: "Installing", test: "Testing" };

/**
 * Reads the models, and reads them again every second while one is installed or tested. `onEnd(task, failure)` is called when
 * that has ended; `failure` is null if it succeeded. Pass a task that the page has just started or cancelled to the returned
 * `reload(task)`: it may have ended before the models are read, and `onEnd` is called then too.
 */
function usePolledModels(onEnd) {
  const { data, problem, answer, reload } = useLoaded(() => local("GET", "/models"));
  const running = useRef(null);
  useEffect(() => {
    if (data !== null && problem === null) {
      const previous = running.current;
      running.current = data.task;
      if (previous && !data.task) onEnd(previous, data.failures[previous.name] ?? null);
    }
    const timer = running.current && setTimeout(reload, POLL_MS);
    return () => clearTimeout(timer);
  }, [answer]);
  const reloadWith = (task = null) => {
    running.current = task ?? running.current;
    return reload();
  };
  return { data, problem, reload: reloadWith };
}

/** The progress of `task`, with a button that calls `onCancel`. */
function TaskProgress({ task, onCancel }) {
  const { name, step, done_bytes: done, total_bytes: total, is_cancelled: isCancelled, kind } = task;
  const known = total > 0 && step === "downloading";
  const sizes = known ? ` ${bytes(done)} of ${bytes(total)}` : "";
  const text = isCancelled ? "Stopping…" : `${STEPS[step]}${sizes}`;
  const verb = VERBS[kind];
  return html`
    <div class="task" role="group" aria-label=${`${verb} ${name}`}>
      <p class="task-text"><strong>${verb} ${name}</strong> <span class="number">${text}</span></p>
      <progress aria-label=${`${verb} ${name}`} value=${known ? done / total : null} max="1"></progress>
      <button type="button" disabled=${isCancelled} onClick=${onCancel}>${kind === "install" ? "Pause" : "Cancel"}</button>
    </div>`;
}
