// The options of new pictures: a row of their present values, each of which opens its control, and the form fields of an upload.

import { html, useState } from "./preact.js";
import { QUALITIES, TARGETS, number, qualityLabel } from "./format.js";
import { preserved, useObservable } from "./observable.js";
import { local } from "./service.js";
import { arrangement } from "./store.js";
import { Choice, Picker, useLoaded } from "./view-parts.js";

const MAX_CONTEXT_CHARS = 500;
const MAX_PROJECT_CHARS = 255;
const MAX_SIDE_PX = 65_535;
const sideText = (side) => `${number(Number(side))} px`;
/** The longest sides of results that are offered, with their texts. */
export const SIDES = ["1280", "1600", "1920", "2560", "3840"].map((side) => [side, sideText(side)]);
const MAX_WIDTHS = 8;
/** What the pictures are for: `context` is the label of the field that says more, and `needed` where the alt text is made from it. */
const ROLES = {
  informative: { label: "Content", context: "What the pictures are for", example: "The heading of the page or article, for better alt texts" },
  decorative: { label: "Decoration", hint: "no alt text" },
  link: { label: "Link", context: "Where the link leads", example: "Such as: the opening hours of the museum", needed: true },
  button: { label: "Button", context: "What the button does", example: "Such as: searches the catalogue", needed: true },
};

/** The options of the next upload. All but the role and the context are preserved between visits. A `format` of null is the default, a `quality` of "" the setting's. */
export const options = preserved("imgproc-local.options", { project: "", languages: null, format: null, quality: "", side: "", widths: "", onlySmaller: false, role: "informative", context: "" }, ["role", "context"]);

const set = (changes) => options.set({ ...options.value, ...changes });

/** The chosen format to convert to, or where this service does not write it, the default. */
export const chosenFormat = () => (options.value.format in TARGETS ? options.value.format : Object.keys(TARGETS)[0]);

/** The chosen languages that the service offers, else the first two of the browser, else English. */
function chosenLanguages(languages, maximum) {
  const offered = (codes) => [...new Set(codes)].filter((code) => languages.some((language) => language.code === code)).slice(0, maximum);
  const chosen = offered(Array.isArray(options.value.languages) ? options.value.languages : []);
  if (chosen.length > 0) return chosen;
  // browsers may call Norwegian Bokmål (nb) by the older code "no"
  const preferred = offered(navigator.languages.map((tag) => tag.split("-")[0].replace("no", "nb")));
  return preferred.length > 0 ? preferred.slice(0, 2) : ["en"];
}

/** The form fields of an upload, from the current options. */
export function formFields(languages, overview) {
  const { project, quality, side, onlySmaller, role, context } = options.value;
  const widths = widthsOf(options.value.widths);
  return [
    ...chosenLanguages(languages, overview.max_languages).map((code) => ["languages", code]),
    ["format", chosenFormat()], ["role", role], ["context", context.trim()], ["project_name", project.trim()], ["quality_target", quality],
    ["max_width_px", side], ["max_height_px", side], ["widths", widths.join()], ["only_smaller", onlySmaller && "true"],
  ].filter(([, value]) => value); // an option without a value is left to the service
}

/** The widths in `text`, separated by commas; null if they can't be used. */
function widthsOf(text) {
  const widths = [...new Set(text.split(",").map((item) => item.trim()).filter(Boolean))];
  const isUsable = widths.every((width) => /^\d{1,5}$/.test(width) && width >= 1 && width <= MAX_SIDE_PX);
  return isUsable && widths.length <= MAX_WIDTHS ? widths : null;
}

/** What a person has to do before pictures are sent with these options, as a sentence; null if nothing. */
export function obstacle() {
  const { label, needed, context } = ROLES[options.value.role];
  if (needed && options.value.context.trim() === "") return `Write ${context.toLowerCase()} first, under “${label}” in the options of new pictures.`;
  return widthsOf(options.value.widths) === null ? "Correct the widths first, in the options of new pictures." : null;
}

/** Pictures that are dropped later, when nobody sees the options, are not decoration or a link because the last ones were. */
export function forgetRole() {
  set({ role: "informative", context: ROLES[options.value.role].needed ? "" : options.value.context });
}

// ---- the row ----

const LABELLED = new Set(["Size", "Widths", "Project", "Role"]); // whose values say nothing without the label

/** The present options in a row of buttons; each opens its control below the row, and closes the one before. */
export function Options({ overview, languages }) {
  const value = useObservable(options);
  const [opened, setOpened] = useState(null);
  const { data } = useLoaded(() => local("GET", "/settings"));
  const standard = data?.settings.find(({ name }) => name === "quality_target").value ?? "web";
  const choices = {
    Format: [`${TARGETS[chosenFormat()].label}${value.onlySmaller ? ", if smaller" : ""}`, html`<${FormatChoice} />`],
    Quality: [qualityLabel(value.quality || standard), html`<${QualityChoice} standard=${standard} />`],
    Size: [value.side === "" ? "original" : sideText(value.side), html`<${SideChoice} />`],
    Widths: [value.widths || "one", html`<${WidthsField} />`],
    Languages: [languagesText(languages, overview), html`<${Languages} overview=${overview} languages=${languages} />`],
    Project: [value.project.trim() || "none", html`<${ProjectName} placeholder="Such as: Harbour 2026" value=${value.project} onName=${(project) => set({ project })} />`],
    Role: [ROLES[value.role].label, html`<${RoleChoice} />`],
  };
  return html`
    <div class="options" role="group" aria-label="Options of new pictures">
      ${Object.entries(choices).map(([label, [text, control]]) => html`
        <button key=${label} type="button" class="option" aria-expanded=${opened === label} onClick=${() => setOpened(opened === label ? null : label)}>
          <span class=${LABELLED.has(label) ? "hint" : "visually-hidden"}>${label}: </span><span dir="auto">${text}</span></button>
        ${opened === label && html`<div key=${`${label}-control`} class="sheet option-control">${control}</div>`}`)}
    </div>`;
}

/** The names of the chosen languages; of more than three, the first and their number. */
export function languagesText(languages, overview) {
  const names = chosenLanguages(languages, overview.max_languages).map((chosen) => languages.find(({ code }) => code === chosen)?.name ?? chosen);
  return names.length > 3 ? `${names[0]} and ${names.length - 1} more` : names.join(", ");
}

// ---- the controls, which are used by the settings, too ----

/** Radio buttons. `choices` have a `label` and perhaps a `hint` by value. */
export const Choices = ({ label, choices, value, onChoose }) => html`
  <div class="choices" role="radiogroup" aria-label=${label}>
    ${Object.entries(choices).map(([each, { label: text, hint }]) => html`
      <${Choice} key=${each} type="radio" name=${label} label=${text} hint=${hint} value=${each} checked=${value === each} onChange=${() => onChoose(each)} />`)}
  </div>`;

export function FormatChoice() {
  const { onlySmaller } = useObservable(options);
  return html`<${Choices} label="Also convert to" choices=${TARGETS} value=${chosenFormat()} onChoose=${(format) => set({ format })} />
    <${Choice} label="Keep only if smaller" hint="than the optimized file" checked=${onlySmaller} onChange=${() => set({ onlySmaller: !onlySmaller })} />`;
}

function QualityChoice({ standard }) {
  const choices = { "": { label: "As in the settings", hint: qualityLabel(standard) }, ...QUALITIES };
  return html`<${Choices} label="Quality of the results" choices=${choices} value=${useObservable(options).quality} onChoose=${(quality) => set({ quality })} />
    <p class="hint"><a href="#settings/quality_target">Compare the qualities with one of your pictures</a></p>`;
}

export function SideChoice() {
  const { side } = useObservable(options);
  const choices = [["", "As the original"], ...SIDES, ["custom", "Another…"]];
  const custom = !choices.some(([choice]) => choice === side);
  return html`
    <div class="actions">
      <${Picker} aria-label="Longest side of the results" choices=${choices} value=${custom ? "custom" : side} onChoose=${(chosen) => set({ side: chosen === "custom" ? "2000" : chosen })} />
      ${custom && html`<input type="number" min="1" max=${MAX_SIDE_PX} value=${side} aria-label="Longest side in pixels"
        onChange=${({ target }) => set({ side: String(Math.min(MAX_SIDE_PX, Math.max(1, Math.round(Number(target.value)) || 1))) })} />`}
    </div>`;
}

function WidthsField() {
  const { widths } = useObservable(options);
  const isWrong = widthsOf(widths) === null;
  return html`
    <label class="field"><span>Also in these widths, in pixels</span>
      <input type="text" autocomplete="off" placeholder="Such as: 480, 960, 1600" value=${widths} aria-invalid=${isWrong} aria-describedby="about-widths"
        onInput=${({ target }) => set({ widths: target.value })} /></label>
    <p id="about-widths" class=${isWrong ? "problem" : "hint"}>${isWrong
      ? `Expected at most ${MAX_WIDTHS} whole numbers from 1 to ${MAX_SIDE_PX}, separated by commas.`
      : "For websites: browsers choose the file that fits the screen. No file is wider than its picture."}</p>`;
}

/** A field with the name of a project, which may be a new one. */
export const ProjectName = ({ value, onName, ...others }) => html`
  <label class="field"><span>Project</span>
    <input type="text" value=${value} maxlength=${MAX_PROJECT_CHARS} list="projects" autocomplete="off" onInput=${({ target }) => onName(target.value)} ...${others} />
    <datalist id="projects">${useObservable(arrangement).projects.map(({ id, name }) => html`<option key=${id} value=${name} />`)}</datalist></label>`;

function RoleChoice() {
  const { role, context: written } = useObservable(options);
  const { context, example, needed } = ROLES[role];
  return html`
    <${Choices} label="Role on the page" choices=${ROLES} value=${role} onChoose=${(chosen) => set({ role: chosen })} />
    ${context && html`
      <label class="field"><span>${context}</span>
        <textarea rows="2" maxlength=${MAX_CONTEXT_CHARS} value=${written} placeholder=${example} required=${needed}
          onInput=${({ target }) => set({ context: target.value })}></textarea>
      </label>`}`;
}

export function Languages({ overview, languages }) {
  useObservable(options);
  const [query, setQuery] = useState("");
  const chosen = chosenLanguages(languages, overview.max_languages);
  const full = chosen.length >= overview.max_languages;
  const toggle = (code) => set({ languages: chosen.includes(code) ? chosen.filter((other) => other !== code) : [...chosen, code] });
  const matching = languages.filter(({ name, native_name: nativeName }) => `${name} ${nativeName}`.toLowerCase().includes(query.trim().toLowerCase()));
  return html`
    <div class="languages">
      <input type="search" aria-label="Find a language" placeholder="Find a language" value=${query} onInput=${(event) => setQuery(event.target.value)} />
      <ul>
        ${matching.map(({ code, name, native_name: nativeName }) => html`
          <li key=${code}><${Choice} label=${name} hint=${nativeName === name ? null : html`<span lang=${code}>${nativeName}</span>`}
            checked=${chosen.includes(code)} disabled=${full && !chosen.includes(code)} onChange=${() => toggle(code)} /></li>`)}
      </ul>
      <p class="hint">${full ? `You can choose at most ${overview.max_languages} languages.` : "Files are named in the first that you choose."}</p>
    </div>`;
}
