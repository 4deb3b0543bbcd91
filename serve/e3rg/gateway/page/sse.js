// @ts-check
// Server-sent events from a POST, which EventSource cannot make.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

/**
 * Cuts a stream of text into events. Comments (pings) are left out.
 */
export class EventParser {
  #rest = "";

  /**
   * @param {string} text what came next
   * @returns {{event: string, data: string}[]} the events that are complete now
   */
  feed(text) {
    const whole = this.#rest + text;
    // A CR at the end may be the first half of a CRLF.
    const held = whole.endsWith("\r") ? 1 : 0;
    const blocks = whole.slice(0, whole.length - held).replace(/\r\n?/g, "\n").split("\n\n");
    this.#rest = (blocks.pop() ?? "") + (held ? "\r" : "");
    return blocks.map(parse).filter(({ data }) => data !== "");
  }
}

/** @param {string} block */
function parse(block) {
  let event = "message";
  /** @type {string[]} */
  const data = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (name === "event") event = value;
    if (name === "data") data.push(value);
  }
  return { event, data: data.join("\n") };
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{event: string, data: any}>}
 */
export async function* events(body) {
  const parser = new EventParser();
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const { event, data } of parser.feed(decoder.decode(value, { stream: true }))) {
        yield { event, data: JSON.parse(data) };
      }
    }
  } finally {
    // Left early: the server must know.
    reader.cancel().catch(() => {});
  }
}
