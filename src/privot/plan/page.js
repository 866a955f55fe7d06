// Sends what is typed and shows what comes back, as text. It computes nothing about privacy.
"use strict";

const form = document.getElementById("form");
const kind = document.getElementById("kind");
const at = id => document.getElementById(id);
let asking = false, newest = "", answered = "", timer = 0;

// A slider's position, from 0 to 1000, and the number beside it.
function slide(slider) {
  const { low, high, log, whole } = slider.dataset, share = slider.value / 1000;
  const value = log ? low * (high / low) ** share : Number(low) + (high - low) * share;
  const rounded = Number(value.toPrecision(2));
  at(slider.dataset.slides).value = whole === "1" ? Math.max(1, Math.round(rounded)) : rounded;
}

function follow(slider) {
  const { low, high, log } = slider.dataset, value = Number(at(slider.dataset.slides).value);
  const share = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  slider.value = Number.isFinite(share) ? 1000 * Math.min(1, Math.max(0, share)) : 0;
  slider.setAttribute("aria-valuetext", at(slider.dataset.slides).value);
}

function used() {
  return kind.selectedOptions[0].dataset.fields.split(" ");
}

function showFields() {
  const names = used();
  for (const field of document.querySelectorAll("[data-field]")) field.hidden = !names.includes(field.dataset.field);
  at("clipping-set").hidden = kind.selectedOptions[0].dataset.clipping !== "1";
}

function asked() {
  const chosen = name => form.querySelector(`input[name=${name}]:checked`)?.value;
  const request = { kind: kind.value, adjacency: chosen("adjacency"), clipping: chosen("clipping") };
  for (const name of used()) request[name] = at(name).value === "" ? null : Number(at(name).value);
  return JSON.stringify(request);
}

function row(cells) {
  const tr = document.createElement("tr");
  cells.forEach((words, place) => {
    const cell = document.createElement(place ? "td" : "th");
    if (!place) cell.scope = "row";
    cell.textContent = words;
    tr.append(cell);
  });
  return tr;
}

function element(tag, words, look) {
  const made = document.createElement(tag);
  made.textContent = words;
  if (look) made.className = look;
  return made;
}

function showLedger(ledger) {
  at("ledger-part").hidden = ledger === null;
  if (ledger === null) return;
  at("ledger-file").textContent = ledger.file;
  const parts = ledger.problem ? [element("p", ledger.problem, "refused")] : [];
  if (!ledger.problem && !ledger.datasets.length) parts.push(element("p", "No data set has a budget in it yet."));
  for (const set of ledger.datasets) {
    parts.push(element("h3", set.label));
    const bar = document.createElement("meter");
    bar.min = 0; bar.max = 1; bar.value = set.share;
    bar.setAttribute("aria-label", `Spent of the budget of ${set.label}`);
    parts.push(bar, element("p", set.words), element("p", set.verdict, set.refused ? "refused" : "fits"));
  }
  at("ledger").replaceChildren(...parts);
}

function show(found) {
  at("refused").hidden = !("refused" in found);
  at("result").hidden = "refused" in found;
  if ("refused" in found) { at("refused").textContent = found.refused; return; }
  for (const id of ["headline", "promise", "people", "command", "python", "explanation", "caution"])
    at(id).textContent = found[id];
  at("errors").replaceChildren(...found.errors.map(row));
  at("facts").replaceChildren(...found.facts.map(row));
  at("notes").replaceChildren(...found.notes.map(words => element("p", words, "quiet")));
  at("measured").replaceChildren(...found.measured.map(words => element("li", words)));
  at("measured-part").hidden = !found.measured.length;
  showLedger(found.ledger);
}

// One question at a time: a slider that moves asks again when the last answer is there, with where it is then.
async function ask() {
  newest = asked();
  if (asking || newest === answered) return;
  asking = true;
  at("answer").setAttribute("aria-busy", "true");
  const busy = setTimeout(() => { at("status").textContent = "Computing …"; }, 300);
  const sent = newest;
  try {
    const reply = await fetch("answer", {
      method: "POST", body: sent, headers: { "Content-Type": "application/json" }, credentials: "omit",
    });
    if (!reply.ok) throw new Error();
    show(await reply.json());
    at("status").textContent = "";
  } catch {
    show({ refused: "privot does not answer: start privot plan again, and open the address that it prints." });
    at("status").textContent = "";
  }
  clearTimeout(busy);
  answered = sent;
  asking = false;
  at("answer").setAttribute("aria-busy", "false");
  if (newest !== answered) ask();
}

function soon() {
  newest = asked();
  clearTimeout(timer);
  timer = setTimeout(ask, 150);
}

form.addEventListener("input", event => {
  const slider = event.target.closest("[data-slides]");
  if (slider) { slide(slider); slider.setAttribute("aria-valuetext", at(slider.dataset.slides).value); }
  else document.querySelectorAll("[data-slides]").forEach(follow);
  if (event.target === kind) showFields();
  soon();
});
form.addEventListener("submit", event => event.preventDefault());

for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", async () => {
    const words = button.textContent;
    try {
      await navigator.clipboard.writeText(at(button.dataset.copies).textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
    setTimeout(() => { button.textContent = words; }, 1500);
  });
}

document.querySelectorAll("[data-slides]").forEach(follow);
showFields();
ask();
