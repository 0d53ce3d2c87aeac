// Starts the page: languages and format, file input, the credit balance.

import { announce, byId, el } from "./dom.js";
import { showKeys, startKeys } from "./keys.js";
import * as pictures from "./pictures.js";
import { keyCreated, local } from "./service.js";
import { showSessions } from "./sessions.js";

const CHOICE_STORAGE_KEY = "imgproc-local.choice";
const languageNames = new Map(); // English names by code
let grades = {}; // of the vision model, by language code
let maxLanguages = 10;

// ---- languages and format ----

function storedChoice() {
  try {
    return JSON.parse(localStorage.getItem(CHOICE_STORAGE_KEY)) ?? {};
  } catch {
    return {};
  }
}

function chosenLanguages() {
  return [...document.querySelectorAll("#language-list input:checked")].map(({ value }) => value);
}

const chosenFormat = () => document.querySelector("input[name=format]:checked").value;

/** The codes of the languages chosen last time, else of the first two languages of the browser, else English. */
function initialLanguages() {
  const offered = (codes) => [...new Set(codes)].filter((code) => languageNames.has(code)).slice(0, maxLanguages);
  const stored = offered(storedChoice().languages ?? []);
  if (stored.length > 0) return stored;
  // browsers may call Norwegian Bokmål (nb) by the older code "no"
  const preferred = offered(navigator.languages.map((tag) => tag.split("-")[0].replace("no", "nb")));
  return preferred.length > 0 ? preferred.slice(0, 2) : ["en"];
}

/** Show what writes the texts: a vision model, or the metadata without one. */
function showDescriber({ model, problem }) {
  const graded = Object.keys(grades).length > 0;
  let text = "No vision model is in use. Texts are made from the words in the metadata; a picture without any is marked “needs text”.";
  if (problem !== null) text = `The vision model ${model} can't be used: ${problem} Texts are made from the words in the metadata; a picture without any is marked “needs text”.`;
  else if (model !== null) {
    text = `Texts are written by the vision model ${model}. `
      + (graded ? "Its grade per language is from A (best) to D." : `It has no grades yet. To grade it: imgproc-local models check ${model}`);
  }
  byId("described-by").textContent = text;
}

async function showLanguages() {
  const { data } = await (await fetch("/api/v1/languages", { credentials: "omit" })).json();
  for (const { code, name } of data) languageNames.set(code, name);
  const chosen = initialLanguages();
  byId("language-list").replaceChildren(...data.map(({ code, name, native_name: nativeName }) => el("li", {},
    el("label", {},
      el("input", { type: "checkbox", value: code, checked: chosen.includes(code), onchange: languagesChanged }), " ",
      el("span", { lang: code, dir: "auto" }, nativeName),
      ...(nativeName === name ? [] : [" ", el("span", { class: "hint" }, name)]),
      ...(grades[code] === undefined ? [] : [" ", el("span", { class: "tag" }, grades[code])])))));
  if (storedChoice().format === "avif") document.querySelector("input[value=avif]").checked = true;
  languagesChanged();
}

const nameWithGrade = (code) => languageNames.get(code) + (grades[code] === undefined ? "" : ` (${grades[code]})`);

function languagesChanged() {
  const chosen = chosenLanguages();
  const full = chosen.length >= maxLanguages;
  for (const box of document.querySelectorAll("#language-list input")) box.disabled = full && !box.checked;
  byId("languages").querySelector("summary").textContent = chosen.map(nameWithGrade).join(", ") || "None chosen: English";
  byId("language-hint").textContent = full ? `You can choose at most ${maxLanguages} languages.` : "";
  storeChoice();
}

function storeChoice() {
  localStorage.setItem(CHOICE_STORAGE_KEY, JSON.stringify({ languages: chosenLanguages(), format: chosenFormat() }));
}

function searchLanguages() {
  const wanted = byId("language-search").value.trim().toLowerCase();
  for (const item of byId("language-list").children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

// ---- file input ----

function addFiles(files) {
  if (files.length === 0) return;
  const languages = chosenLanguages();
  pictures.add(files, { languages: languages.length > 0 ? languages : ["en"], format: chosenFormat() });
}

function listenForFiles() {
  const drop = byId("drop");
  const showDropTarget = (event, over) => {
    event.preventDefault();
    drop.classList.toggle("over", over);
  };
  // the whole page accepts drops, because the browser would open a file that is dropped beside the box
  document.addEventListener("dragover", (event) => showDropTarget(event, true));
  document.addEventListener("dragleave", (event) => { if (event.relatedTarget === null) showDropTarget(event, false); });
  document.addEventListener("drop", async (event) => {
    showDropTarget(event, false);
    addFiles(await pictures.filesOfDrop(event.dataTransfer));
  });
  byId("choose").addEventListener("click", () => byId("files").click());
  byId("files").addEventListener("change", (event) => {
    addFiles([...event.target.files]);
    event.target.value = "";
  });
}

// ---- balance ----

let balanceTimer = null;

/** Update the balance after 700 ms: calls within this time share one request. */
function refreshBalanceSoon() {
  balanceTimer ??= setTimeout(async () => {
    balanceTimer = null;
    try {
      showBalance(await local("GET", "/overview"));
    } catch {
      // the old balance remains; other requests report why the service does not answer
    }
  }, 700);
}

function showBalance({ balance }) {
  byId("balance").textContent = balance === null ? "–" : new Intl.NumberFormat("en").format(balance);
}

// ---- start ----

async function start() {
  listenForFiles();
  byId("language-search").addEventListener("input", searchLanguages);
  for (const radio of document.querySelectorAll("input[name=format]")) radio.addEventListener("change", storeChoice);
  for (const which of ["optimized", "converted"]) {
    byId(`all-${which}`).addEventListener("click", () => pictures.downloadAll(which));
  }
  keyCreated.addEventListener("created", () => { showKeys().catch((error) => announce(error.message)); });
  window.addEventListener("beforeunload", (event) => { if (pictures.hasUnsent()) event.preventDefault(); });

  const overview = await local("GET", "/overview");
  maxLanguages = overview.max_languages;
  showBalance(overview);
  pictures.prepare({ overview, onBalanceChange: refreshBalanceSoon, languageName: (code) => languageNames.get(code) ?? code });
  grades = overview.described_by.grades;
  showDescriber(overview.described_by);
  await showLanguages();
  await startKeys(overview.rate_limit_per_minute);
  await showSessions();
  await pictures.addEarlier();
}

start().catch((error) => {
  byId("notices").append(el("p", { class: "notice" }, `The page can't start: ${error.message} `,
    el("button", { type: "button", onclick: () => location.reload() }, "Try again")));
});
