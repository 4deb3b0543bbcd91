// @ts-check
// "How I understood you": the emotion and how it was composed, the memory, the times.

import { $, bar, make, percent } from "./dom.js";

/** @type {Record<string, string>} */
const SENSES = { text: "your words", voice: "your voice", face: "your face" };

/** In the order in which they usually come. @type {Record<string, string>} */
const MILESTONES = {
  transcript: "your words were heard",
  emotion: "your feeling was recognised",
  memory: "memory was looked up",
  first_token: "the first word was written",
  first_audio: "the first piece was spoken",
  first_frame: "the first picture was drawn",
  total: "all of it was made",
};

/** What a face shows, as a noun. @type {Record<string, string>} */
const SHOWN = {
  concerned: "concern",
  happy: "joy",
  surprised: "surprise",
  angry: "anger",
  sad: "sadness",
  disgusted: "disgust",
  neutral: "calm",
};

export class Panels {
  clear() {
    $("gist").textContent = "";
    for (const id of ["emotion", "memory", "timings"]) {
      $(id).replaceChildren(make("p", { className: "small" }, "Nothing yet."));
    }
  }

  /** @param {import("./types.js").Emotion} emotion */
  emotion(emotion) {
    const { label, category, confidence } = emotion;
    $("gist").textContent = `${label} (${percent(confidence)})`;
    $("emotion").replaceChildren(
      make("p", {},
        "You seem ", make("strong", {}, label),
        label === category ? ": " : `, which counts as ${category}: `, `${percent(confidence)} sure. `,
        `I show ${SHOWN[emotion.listener.expression] ?? emotion.listener.expression}, ${strength(emotion.listener.intensity)}.`),
      table("All eight feelings", "Feeling", "Share", shares(emotion.categories)),
      ...this.#composed(emotion),
    );
  }

  /** @param {import("./types.js").Emotion} emotion */
  #composed({ modalities }) {
    const rows = Object.entries(modalities).map(([sense, { confidence, categories }]) => {
      const [first] = shares(categories);
      const found = first ? `${first.label} (${first.shown})` : "nothing clear";
      return make("li", {}, `From ${SENSES[sense] ?? sense}: ${found}, ${sure(confidence)}.`);
    });
    if (!rows.length) return [];
    return [make("h4", {}, "What that is made of"), make("ul", {}, ...rows)];
  }

  /** @param {import("./types.js").Memory} memory */
  memory({ exemplars, episodes }) {
    const parts = [];
    if (episodes.length) {
      parts.push(make("h4", {}, "What you told before"), make("ul", {}, ...episodes.map((episode) =>
        make("li", {}, `“${episode.text}” `,
          make("span", { className: "small" }, `${day(episode.created)}, ${episode.emotion}`)))));
    }
    if (exemplars.length) {
      parts.push(make("h4", {}, "Like situations of others"), make("ul", {}, ...exemplars.map((exemplar) =>
        make("li", {}, `“${exemplar.situation}” `,
          make("span", { className: "small" },
            `${exemplar.emotion}, ${percent(exemplar.similarity)} alike, ${exemplar.id}`)))));
    }
    if (!parts.length) parts.push(make("p", { className: "small" }, "Nothing like it was found."));
    $("memory").replaceChildren(...parts);
  }

  /** @param {Record<string, number>} timings seconds from the start */
  timings(timings) {
    const longest = Math.max(...Object.values(timings), 0.001);
    const known = Object.keys(MILESTONES).filter((name) => name in timings);
    const further = Object.keys(timings).filter((name) => !(name in MILESTONES));
    const rows = [...known, ...further].map((name) => ({
      label: MILESTONES[name] ?? name.replaceAll("_", " "),
      share: timings[name] / longest,
      shown: `${timings[name].toFixed(2)} s`,
    }));
    $("timings").replaceChildren(table("Seconds until", "Until", "Seconds", rows));
  }
}

/**
 * @param {string} caption
 * @param {string} first
 * @param {string} second
 * @param {{label: string, share: number, shown: string}[]} rows
 */
function table(caption, first, second, rows) {
  return make("table", { className: "bars" },
    make("caption", { className: "sr" }, caption),
    make("thead", { className: "sr" }, make("tr", {},
      make("th", { scope: "col" }, first), make("th", { scope: "col" }, second))),
    make("tbody", {}, ...rows.map(({ label, share, shown }) => make("tr", {},
      make("th", { scope: "row" }, label),
      make("td", {}, bar(share), make("span", {}, shown))))));
}

/** @param {Record<string, number>} categories */
function shares(categories) {
  return Object.entries(categories)
    .sort(([, a], [, b]) => b - a)
    .map(([label, share]) => ({ label, share, shown: percent(share) }));
}

/** @param {number} confidence */
function sure(confidence) {
  if (confidence >= 0.75) return "quite sure";
  return confidence >= 0.5 ? "fairly sure" : "not very sure";
}

/** @param {number} intensity */
function strength(intensity) {
  if (intensity >= 0.7) return "strongly";
  return intensity >= 0.4 ? "clearly" : "softly";
}

/** @param {number} created Unix time */
function day(created) {
  return new Date(created * 1000).toLocaleDateString(undefined, { day: "numeric", month: "long", year: "numeric" });
}
