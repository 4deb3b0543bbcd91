// The page: sends what is typed, and plays the reply while it is made.
import { Player } from "./player.js";

const $ = (id) => document.getElementById(id);
const player = new Player($("video"), $("portrait"), () => { if (!running) busy(false); });
let conversation = null;
let running = null;

async function loadIdentities() {
  const answer = await (await fetch("/v1/identities")).json();
  for (const identity of answer.data) {
    const label = document.createElement("label");
    const radio = Object.assign(document.createElement("input"), {
      type: "radio", name: "identity", value: identity.id, checked: identity.id === answer.default,
    });
    const image = Object.assign(document.createElement("img"), { src: identity.portrait, alt: "" });
    radio.addEventListener("change", () => choose(identity));
    label.append(radio, image, identity.name);
    $("identities").append(label);
    if (radio.checked) choose(identity);
  }
}

function choose(identity) {
  running?.abort();
  $("portrait").src = identity.portrait;
  $("portrait").alt = `Portrait of ${identity.name}`;
  $("name").textContent = identity.name;
  player.stop();
  conversation = null; // a conversation keeps its listener
}

async function say(text) {
  running = new AbortController();
  busy(true);
  line("you", text);
  const reply = line("listener", "");
  $("facts").replaceChildren();
  status("Listening …");
  player.start();
  try {
    const response = await fetch("/v1/turns", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        text,
        identity: document.querySelector("input[name=identity]:checked")?.value,
        ...(conversation ? { conversation } : {}),
      }),
      signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const [name, data] of events(response.body)) show(name, data, reply);
  } catch (error) {
    player.stop();
    status("");
    if (error.name !== "AbortError") {
      line("notice", `No answer: ${error.message}`);
      $("text").value ||= text; // what was typed is not lost
    }
  } finally {
    if (!reply.textContent) reply.remove();
    running = null;
    if (!player.playing) busy(false);
  }
}

function show(name, data, reply) {
  switch (name) {
    case "turn.created": conversation = data.conversation; break;
    case "transcript": fact("Heard", data.text); break;
    case "emotion":
      fact("Emotion", `${data.label} (${data.category}), ${percent(data.confidence)} sure`);
      fact("Listener shows", `${data.listener.expression}, ${percent(data.listener.intensity)}`);
      break;
    case "memory":
      for (const used of data.exemplars) fact("Like situation", `${used.situation} (${used.id})`);
      for (const used of data.episodes) fact("You told before", used.text);
      break;
    case "text.delta":
      status("Answering …");
      reply.textContent += data.text;
      $("log").scrollTop = $("log").scrollHeight;
      break;
    case "video.segment": player.append(data); break;
    case "audio.chunk": player.sound(data); break;
    case "degraded":
      line("notice", `${data.given} in place of ${data.wanted}: ${data.message}`);
      if (data.wanted === "video" && data.given === "audio") player.goOnWithoutPictures();
      break;
    case "turn.completed":
      player.end();
      status("");
      for (const [milestone, seconds] of Object.entries(data.timings)) {
        fact(milestone.replace("_", " "), `${seconds.toFixed(2)} s`);
      }
      break;
    case "error": throw new Error(data.error.message);
  }
}

// Server-sent events from a POST, which EventSource cannot make.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const block = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      const name = /^event: (.*)$/m.exec(block);
      const data = /^data: (.*)$/m.exec(block);
      if (name && data) yield [name[1], JSON.parse(data[1])];
    }
  }
}

function line(kind, text) {
  const paragraph = Object.assign(document.createElement("p"), { className: kind, textContent: text });
  $("log").append(paragraph);
  $("log").scrollTop = $("log").scrollHeight;
  return paragraph;
}

function fact(term, description) {
  $("facts").append(
    Object.assign(document.createElement("dt"), { textContent: term }),
    Object.assign(document.createElement("dd"), { textContent: description }),
  );
}

function busy(on) {
  const moved = document.activeElement === $("send") || document.activeElement === $("stop");
  $("send").hidden = on;
  $("stop").hidden = !on;
  if (moved) (on ? $("stop") : $("text")).focus();
}

const percent = (value) => `${Math.round(value * 100)}%`;
const status = (text) => { $("status").textContent = text; };

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  say(text);
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});
$("stop").addEventListener("click", () => {
  running?.abort();
  player.stop();
  busy(false);
  status("Interrupted.");
});

loadIdentities().catch((error) => line("notice", `The listeners cannot be loaded: ${error.message}`));
