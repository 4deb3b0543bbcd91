// @ts-check
// Errors and losses in plain words, with what to do.

/** A failure, with words for the person who looks at the page. */
export class Trouble extends Error {
  /**
   * @param {string} message for the person
   * @param {string} [code] stable, as in the API
   */
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

const BUSY = "Everyone who listens is busy right now. Please try again in a few seconds.";
const OURS = "Something went wrong on our side. Please try again; if it keeps happening, start a new conversation.";

/** @type {Record<string, string>} */
const WORDS = {
  overloaded: BUSY,
  text_too_long: "That is longer than can be taken in at once. Please send it in two or three parts.",
  text_empty: "There is nothing in it yet. Write a few words first.",
  text_no_words: "There are no words in it. Please write at least one.",
  unsupported_language: "Only English is understood so far. Please say it in English.",
  no_speech: "No words could be heard. Please speak a little louder or closer, or type it.",
  deadline_exceeded: "The answer took too long and was given up. Please try again.",
  unknown_identity: "This listener is gone. Please choose another one under “Who listens”.",
  context_length_exceeded: "This conversation has become too long. Please start a new one.",
  origin_refused: "Another site's page asked for this. Please open the listener's own address.",
  model_not_found: "This listener cannot be reached by voice. Typing still works.",
};

/**
 * @param {{code?: string | null, message?: string}} error as the API gives it
 * @returns {Trouble}
 */
export function trouble({ code, message }) {
  const known = code ?? "";
  const words = WORDS[known]
    ?? (/_busy$|_unavailable$|_closed$/.test(known) ? BUSY : null)
    ?? (/_failed$|_timeout$|^internal_/.test(known) ? OURS : null);
  return new Trouble(words ?? `${capital(message || "It did not work")}.`.replace(/\.\.$/, "."), known);
}

/**
 * @param {Response} response that is not ok
 * @returns {Promise<Trouble>}
 */
export async function refusal(response) {
  try {
    return trouble((await response.json()).error);
  } catch {
    return new Trouble(response.status === 503 ? BUSY : OURS, `http_${response.status}`);
  }
}

export const LOST = "The connection to the server was lost. Nothing that was said is gone.";

/** @type {Record<string, string>} */
const LOSSES = {
  "video still": "The picture stands still for now; the voice goes on.",
  "video audio": "There is no picture just now; the voice goes on.",
  "video text": "There is neither picture nor voice just now; please read the answer.",
  "audio text": "There is no voice just now; please read the answer.",
  "emotion neutral": "Your feeling could not be recognised this time; the answer takes only your words into account.",
  "memory none": "Earlier experience could not be looked up this time.",
};

/**
 * @param {import("./types.js").Degraded} degraded
 * @returns {string}
 */
export function loss({ wanted, given, message }) {
  return LOSSES[`${wanted} ${given}`] ?? capital(message);
}

/**
 * Why a microphone or a camera cannot be had (https://www.w3.org/TR/mediacapture-streams/).
 * @param {unknown} error of getUserMedia
 * @param {"microphone" | "camera"} device
 * @returns {Trouble}
 */
export function refusedDevice(error, device) {
  const name = error instanceof Error ? error.name : "";
  const goOn = "You can go on by typing.";
  switch (name) {
    case "NotAllowedError":
      return new Trouble(`The browser was not allowed to use the ${device}. To change that, use the sign beside the address. ${goOn}`);
    case "NotFoundError":
    case "OverconstrainedError":
      return new Trouble(`No ${device} was found. ${goOn}`);
    case "NotReadableError":
      return new Trouble(`The ${device} is in use by another program. Close it and try again. ${goOn}`);
    case "InsecureError":
      return new Trouble(`Browsers lend the ${device} only to pages that come by https or from this machine. ${goOn}`);
    default:
      return new Trouble(`The ${device} could not be started. ${goOn}`);
  }
}

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
