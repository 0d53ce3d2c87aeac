// The view "Settings": six cards with what can be changed here, and a table of all settings.

import { html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { QUALITIES, TARGETS, bytes, number, qualityLabel, savedShare } from "./format.js";
import { announce } from "./messages.js";
import { useObservable } from "./observable.js";
import { FormatChoice, Languages, SideChoice, chosenFormat, languagesText, options } from "./options.js";
import { api, fileOf, local, preview } from "./service.js";
import { allPictures, arrangement, current } from "./store.js";
import { Panel, Picker, Problem, Segments, useAction, useLatest, useLoaded } from "./view-parts.js";

/** The settings of the cards: their labels, and for each value its name and what happens then. A switch is on or off. */
const WORDS = {
  effort: ["Time per picture", {
    fast: ["Little", "Files are made quickly and are somewhat larger."],
    balanced: ["Balanced", "A good size in a reasonable time."],
    best: ["Much", "Files are a little smaller at the same quality, and take longer."],
  }],
  keep_dates: ["Keep dates", { true: "Results say when the picture was taken and edited.", false: "When a picture was taken or edited is removed from the results." }],
  keep_camera: ["Keep camera and exposure", { true: "Results name the camera, the lens and the exposure, never serial numbers.", false: "Camera, lens and exposure are removed from the results." }],
  keep_location: ["Place", {
    none: ["Remove", "No place is named, neither in the results nor in texts."],
    city: ["City and country", "Results name the city and the country. The exact position is always removed."],
    all: ["With street", "Results also name the street or the spot. The exact position is always removed."],
  }],
  name_people: ["People", {
    none: ["Nobody", "Texts and file names quote no captions, because these may contain names."],
    captions: ["From captions", "Texts may name people whom a caption names. The names of marked faces are removed."],
    all: ["Also marked faces", "Texts and results name the people whose faces are marked, without where they are in the picture."],
  }],
  keep_rating: ["Keep rating and label", { true: "Results keep the stars and the colour label.", false: "Stars and colour labels are removed from the results." }],
  pixel_texts: ["Placeholder texts", { true: "A picture that nothing is known of gets a text such as “Photograph, May 2026”, and is still marked “needs text”.", false: "A picture that nothing is known of gets no text, and is marked “needs text”." }],
};
const NETWORK = "These can’t be changed here: whoever finds this page open must not be able to let other machines in or send pictures out. Stop the service, and start it with the options that";
const SAVE_AFTER_MS = 400; // arrow keys move the slider by one
const PREVIEW_AFTER_MS = 250; // a slider that is moved asks for no picture in between
const MAX_OFFERED_PICTURES = 200;
const MAX_SHOWN_PX = 1600; // of a comparison, so that it is made in seconds

/** Shows the view. `app` has the functions of the page, see app.js; `path` may have the name of the setting that a link is about. */
export function SettingsView({ app, path: [linked] }) {
  const { data, problem, reload } = useLoaded(() => local("GET", "/settings"));
  const { data: languages } = useLoaded(() => api("/languages").then((answer) => answer.json()).then((answer) => answer.data));
  const { loaded } = useObservable(arrangement);
  const byName = Object.fromEntries((data?.settings ?? []).map((setting) => [setting.name, setting]));
  const action = useAction(async (name, value, isUndo = false) => {
    const { value: before, source, needs_restart: isLater } = byName[name];
    await local("PATCH", "/settings", { [name]: value });
    await reload();
    app.refresh();
    const text = isUndo ? "Undone." : isLater ? "Saved. It takes effect when the service is started again." : "Saved.";
    announce(text, isUndo ? null : () => action.run(name, source === "default" ? null : before, true));
  });
  useEffect(() => {
    const marked = document.querySelector(".view-settings [data-linked=true]");
    marked?.scrollIntoView({ block: "center" });
    marked?.focus({ preventScroll: true });
  }, [linked, data === null, loaded]); // when the list is loaded, the comparison moves what is below it
  const isInCards = linked === undefined || linked in WORDS || linked === "quality_target";
  const row = (name) => html`<${Setting} key=${name} setting=${byName[name]} isLinked=${name === linked} onChange=${action.run} />`;
  return html`
    <${Panel} title="Settings" problem=${problem} loading=${data === null} intro="What holds for all pictures from now on. Pictures that are finished stay as they are.">
      <${Problem} text=${action.problem} />
      ${data && html`<div class="cards">
        <${Card} title="Quality">
          <${Quality} setting=${byName.quality_target} isLinked=${linked === "quality_target"} onChange=${action.run} />
          ${row("effort")}
        </${Card}>
        <${Card} title="Files and names">
          <${Row} label="Second format" hint="Beside the smaller file in its own format, each picture is made in this one."><${FormatChoice} /></${Row}>
          <${Row} label="Longest side" hint="Larger pictures are scaled down."><${SideChoice} /></${Row}>
          <p class="hint">Files are named after the words that describe the picture, in the first language. Without any words, the project and the month are used. You can write every name yourself, beside the text.</p>
        </${Card}>
        <${Card} title="Languages">
          ${languages && html`<details><summary>${languagesText(languages, app.overview)}</summary><${Languages} overview=${app.overview} languages=${languages} /></details>`}
          <p class="hint">New pictures get texts in these languages. In this browser they are remembered, as are format and longest side.</p>
        </${Card}>
        <${Card} title="Privacy">
          ${["keep_dates", "keep_camera", "keep_location", "name_people", "keep_rating"].map(row)}
          <p class="hint">The exact position, serial numbers, addresses and embedded previews are always removed.</p>
        </${Card}>
        <${Card} title="Model">
          <${Row} label=${app.overview.described_by.model ?? "No model is in use"} hint=${app.overview.described_by.problem ?? "What looks at pictures and describes them."}><a href="#models">Choose a model</a></${Row}>
          ${row("pixel_texts")}
        </${Card}>
        <${Card} title="Network">
          <${Row} label="Connections" hint=${byName.air_gapped.value ? "The service opens no connection: models have to be installed from files." : "The service connects to others only to download a model that you choose, or to use a service that is named in its settings."}>
            ${byName.air_gapped.value ? "None" : "As needed"}</${Row}>
          <${Row} label="Address" hint="Where this page and the programs that use the service find it.">${location.origin}</${Row}>
          <p class="hint">${NETWORK} <code>imgproc-local serve --help</code> lists.</p>
        </${Card}></div>
        <${Advanced} settings=${data.settings} file=${data.file} linked=${isInCards ? null : linked} />`}
    </${Panel}>`;
}

const Card = ({ title, children }) => html`<section class="sheet card" aria-label=${title}><h3>${title}</h3>${children}</section>`;

/** A label with what it means, and a control. */
const Row = ({ label, hint, name, isLinked, children }) => html`
  <div class="row" id=${name && `setting-${name}`} tabindex=${name && "-1"} data-linked=${isLinked}>
    <div><p class="row-label">${label}</p><p class="hint" id=${name && `about-${name}`}>${hint}</p></div>
    <div class="row-control">${children}</div>
  </div>`;

/** Why a setting can't be changed here, or when a change takes effect; "" if it is as the page shows. */
function restriction({ source, changeable, value, in_effect: inEffect }) {
  if (changeable) return value === inEffect ? "" : "Takes effect when the service is started again.";
  if (source.startsWith("--")) return `Fixed by the option ${source} with which the service was started.`;
  return source.startsWith("IMGPROC_") ? `Fixed by the variable ${source} of the service.` : "Can’t be changed on this page.";
}

/** A setting of `WORDS`. Renders nothing for one that the service does not have. */
function Setting({ setting, isLinked, onChange }) {
  if (setting === undefined) return null;
  const { name, value, changeable } = setting;
  const [label, choices] = WORDS[name];
  const isSwitch = typeof value === "boolean";
  const common = { "aria-label": label, "aria-describedby": `about-${name}`, disabled: !changeable };
  return html`
    <${Row} name=${name} label=${label} isLinked=${isLinked} hint=${`${isSwitch ? choices[value] : choices[value][1]} ${restriction(setting)}`}>
      ${isSwitch
        ? html`<input type="checkbox" role="switch" checked=${value} ...${common} onChange=${({ target }) => onChange(name, target.checked)} />`
        : html`<${Picker} choices=${Object.entries(choices).map(([each, [text]]) => [each, text])} value=${value} ...${common} onChoose=${(chosen) => onChange(name, chosen)} />`}
    </${Row}>`;
}

// ---- quality, with a comparison ----

function Quality({ setting, isLinked, onChange }) {
  const { name, value, changeable } = setting;
  const saved = QUALITIES[value]?.score ?? value;
  const [score, setScore] = useState(saved);
  useEffect(() => setScore(saved), [saved]);
  const step = Object.keys(QUALITIES).find((each) => QUALITIES[each].score === score);
  const timer = useRef();
  const save = (target, delay_ms = 0) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(name, target), delay_ms);
  };
  return html`
    <${Row} name=${name} isLinked=${isLinked} label=${qualityLabel(step ?? score)} hint=${`${step ? `${QUALITIES[step].hint[0].toUpperCase()}${QUALITIES[step].hint.slice(1)}.` : "A likeness that you have chosen; 100 would be the original."} ${restriction(setting)}`}>
      <${Segments} label="Quality" choices=${Object.entries(QUALITIES).map(([target, { label }]) => [target, label])} value=${step} disabled=${!changeable} onChoose=${(target) => save(target)} />
      <label class="likeness"><span>Likeness</span>
        <input type="range" min="50" max="95" value=${score} disabled=${!changeable} aria-describedby=${`about-${name}`}
          onInput=${({ target }) => setScore(Number(target.value))} onChange=${({ target }) => save(step ?? Number(target.value), SAVE_AFTER_MS)} />
        <output>${score}</output></label>
    </${Row}>
    <${Comparison} target=${score} isLinked=${isLinked} />`;
}

/** Nothing is made until a person wants to see it. */
function Comparison({ target, isLinked }) {
  const { loaded } = useObservable(arrangement);
  const [chosen, setChosen] = useState(current.value);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => { if (isLinked) setOpen(true); }, [isLinked]);
  const offered = allPictures().filter(({ state }) => state === "done").slice(0, MAX_OFFERED_PICTURES);
  const picture = offered.find(({ id }) => id === chosen) ?? offered[0];
  if (picture === undefined) return loaded && html`<p class="hint">When there are pictures, you can compare the qualities here.</p>`;
  return html`
    <details class="comparison" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Compare with one of your pictures</summary>
      ${isOpen && html`<${BeforeAndAfter} picture=${picture} offered=${offered} onChoose=${setChosen} target=${target} />`}
    </details>`;
}

/**
 * The picture as it is, and as it would be made in the size that is shown, divided by a line that moves: converted, but optimized
 * instead of a JPEG XL, which has no quality where it is without loss. Another one of `offered` can be chosen.
 */
function BeforeAndAfter({ picture, offered, onChoose, target }) {
  const [split, setSplit] = useState(50);
  useObservable(options);
  const format = chosenFormat();
  const made = format === "jxl" ? { variant: "optimized" } : { variant: "converted", format };
  const { id, image: { id: imageId }, details: { width_px: width, height_px: height } } = picture;
  const box = useRef();
  const before = useLatest(async (signal) => ({ file: await fileOf(imageId, "original", { signal }) }), [imageId], 0);
  const after = useLatest(async (signal) => {
    const [maxWidth, maxHeight] = [box.current.clientWidth, box.current.clientHeight].map((side) => Math.min(MAX_SHOWN_PX, Math.round(side * devicePixelRatio)));
    const result = await preview({ image_id: imageId, ...made, quality_target: target, max_width_px: maxWidth, max_height_px: maxHeight }, signal);
    return { ...result, told: resultText(picture, result, Math.min(maxWidth / width, maxHeight / height)) };
  }, [imageId, target, format], PREVIEW_AFTER_MS);
  const status = [after.problem ?? after.told, after.isLoading && "Making it…"].filter(Boolean).join(" – ");
  return html`
    <div class="compare" ref=${box}>
      <${Shown} file=${before.file} alt=${`${picture.name}, original`} />
      <${Shown} file=${after.file} alt=${`${picture.name}, as it would be made`} style=${{ clipPath: `inset(0 0 0 ${split}%)` }} />
      <input type="range" aria-label="Share of the original" aria-valuetext=${`${split} % original`} value=${split} onInput=${(event) => setSplit(Number(event.target.value))} />
      <div class="compare-handle" style=${{ left: `${split}%` }}></div>
      <span class="compare-label before" aria-hidden="true">Original</span>
      <span class="compare-label after" aria-hidden="true">${TARGETS[made.format]?.label ?? "Optimized"}</span>
    </div>
    <div class="actions">
      <${Picker} aria-label="Picture to compare" choices=${offered.map(({ id: each, name }) => [each, name])} value=${id} onChoose=${onChoose} />
      <p class="number" role="status">${status}</p>
    </div>`;
}

/** The size of a result and its likeness; beside that of the original only where it is not made smaller, by `scale`. */
function resultText({ size, details }, { file, score }, scale) {
  const sides = [details.width_px, details.height_px].map((side) => number(Math.round(side * scale))).join(" × ");
  const sizes = scale < 1 ? `${bytes(file.size)} at ${sides} pixels` : `${bytes(size)} → ${bytes(file.size)} (${savedShare(file.size, size)})`;
  return score === null ? sizes : `${sizes}, likeness ${score}`;
}

/** A picture from a Blob, when there is one. */
function Shown({ file, ...others }) {
  const url = useMemo(() => file && URL.createObjectURL(file), [file]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return url && html`<img src=${url} draggable=${false} ...${others} />`;
}

// ---- all settings ----

const shownValue = (value) => (value === "" ? "empty" : value === null ? "none" : String(value));

const Advanced = ({ settings, file, linked }) => html`
  <details class="sheet advanced" open=${linked !== null}>
    <summary>Advanced: all settings by name</summary>
    <p class="hint">${file === null ? "There is no settings file for this user." : html`The settings file is <code>${file}</code>.`} Options of the command line and variables win over it.</p>
    <table>
      <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
      <tbody>
        ${settings.map((setting) => html`
          <tr key=${setting.name} id=${`all-${setting.name}`} tabindex="-1" data-linked=${setting.name === linked}>
            <th scope="row"><code>${setting.name}</code><p class="hint">${setting.description}</p></th>
            <td><code>${shownValue(setting.value)}</code></td>
            <td class="hint">${setting.source}</td>
          </tr>`)}
      </tbody>
    </table>
  </details>`;
