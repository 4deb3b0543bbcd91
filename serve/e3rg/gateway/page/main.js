// @ts-check
// Puts the page's parts together and answers its controls.

import { Captions } from "./captions.js";
import { $, make, press } from "./dom.js";
import { Identities } from "./identities.js";
import { Log } from "./log.js";
import { LOST, Trouble } from "./messages.js";
import { Panels } from "./panels.js";
import { Player } from "./player.js";
import { Settings } from "./settings.js";
import { Talk } from "./talk.js";
import { Upload } from "./upload.js";

const video = /** @type {HTMLVideoElement} */ ($("video"));
const mirror = /** @type {HTMLVideoElement} */ ($("self"));
const text = /** @type {HTMLTextAreaElement} */ ($("text"));
const stop = /** @type {HTMLButtonElement} */ ($("stop"));

const player = new Player(video);
const captions = new Captions($("caption"), $("captions"), () => player.time);
const log = new Log();
const panels = new Panels();
const settings = new Settings();
const identities = new Identities();
const talk = new Talk({ player, captions, log, panels }, identities, settings, mirror);
const { live } = talk;

/**
 * @param {string} message
 * @param {string} [label] of a button that mends it
 * @param {() => unknown} [mend]
 */
function showTrouble(message, label, mend) {
  /** @type {Node[]} */
  const parts = [make("p", {}, message)];
  if (label && mend) {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      clearTrouble();
      text.focus();
      mend();
    });
    parts.push(button);
  }
  $("trouble").replaceChildren(...parts);
}

const clearTrouble = () => $("trouble").replaceChildren();

/** @param {() => Promise<unknown>} action that may fail */
async function attempt(action) {
  clearTrouble();
  try {
    await action();
  } catch (why) {
    showTrouble(why instanceof Trouble ? why.message : LOST, "Try again", () => attempt(action));
  }
}

// What is said

function submit() {
  const said = text.value.trim();
  if (!said) {
    text.focus();
    return;
  }
  text.value = "";
  clearTrouble();
  talk.say(said);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
stop.addEventListener("click", () => talk.interrupt());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) talk.interrupt();
});
for (const device of /** @type {const} */ (["microphone", "camera"])) {
  $(device).addEventListener("click", () => {
    player.unlock();
    attempt(() => live.toggle(device));
  });
}
$("play").addEventListener("click", () => {
  $("play").hidden = true;
  player.retry();
});

// What happens

player.addEventListener("blocked", () => { $("play").hidden = false; });
player.addEventListener("begun", () => { $("play").hidden = true; });
live.addEventListener("change", () => {
  press($("microphone"), live.isOn("microphone"));
  press($("camera"), live.isOn("camera"));
  showMirror();
  showStatus();
});
live.addEventListener("level", (event) => {
  const level = /** @type {CustomEvent<number>} */ (event).detail;
  $("level").style.transform = `scaleX(${Math.min(1, 5 * level)})`;
});
talk.addEventListener("phase", showStatus);
talk.addEventListener("trouble", (event) => {
  const { why, text: unsaid } = /** @type {CustomEvent} */ (event).detail;
  text.value ||= unsaid; // what was typed is not lost
  showTrouble(why.message);
});
talk.addEventListener("lost", (event) => {
  const why = /** @type {CustomEvent<Trouble>} */ (event).detail;
  showTrouble(why.message, "Go on", () => attempt(() => live.reopen()));
});

function showStatus() {
  $("status").textContent = statusWords(identities.chosen?.name ?? "The listener");
  const busy = talk.phase === "thinking" || talk.phase === "speaking";
  if (!busy && document.activeElement === stop) text.focus();
  stop.disabled = !busy;
  $("frame").dataset.phase = talk.phase;
}

/** @param {string} name */
function statusWords(name) {
  if (live.opening) return "Connecting …";
  switch (talk.phase) {
    case "hearing": return `${name} hears you …`;
    case "thinking": return `${name} is thinking …`;
    case "speaking": return `${name} is speaking.`;
    default: return live.isOn("microphone") && live.session ? `${name} is listening: just speak.` : "";
  }
}

function showMirror() {
  mirror.hidden = !live.isOn("camera");
  mirror.classList.toggle("unseen", !settings.mirror);
}

// Who listens, and how

identities.addEventListener("choose", () => {
  const { chosen } = identities;
  if (!chosen) return;
  const portrait = /** @type {HTMLImageElement} */ ($("portrait"));
  portrait.src = video.poster = chosen.portrait;
  portrait.alt = `Portrait of ${chosen.name}`;
  $("name").textContent = chosen.name;
  log.note(`${chosen.name} listens now.`);
  attempt(() => talk.restart()); // a conversation keeps its listener
});
$("new").addEventListener("click", () => {
  log.clear();
  text.focus();
  attempt(() => talk.restart());
});
settings.addEventListener("change", (event) => {
  switch (/** @type {CustomEvent<string>} */ (event).detail) {
    case "mirror": showMirror(); break;
    case "connection": attempt(() => live.reopen()); break;
    case "remember": attempt(() => talk.restart()); break;
    default: live.update();
  }
});
new Upload(identities, () => {
  /** @type {HTMLInputElement | null} */ ($("identities").querySelector("input:checked"))?.focus();
});
window.addEventListener("pagehide", () => live.close());

panels.clear();
attempt(() => identities.load());
