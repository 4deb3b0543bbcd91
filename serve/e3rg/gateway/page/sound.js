// @ts-check
// Plays spoken pieces back to back, for replies without pictures.

/** @typedef {import("./types.js").Chunk} Chunk */

export class Sound {
  /** @type {{at: number, start: number, duration: number}[]} */
  #placed = [];
  /** @type {Set<AudioBufferSourceNode>} */
  #nodes = new Set();
  #end = 0;

  /**
   * @param {AudioContext} context
   * @param {() => void} silent called when a piece has ended and none is left
   */
  constructor(context, silent) {
    this.context = context;
    this.silent = silent;
  }

  /**
   * @param {Chunk} chunk
   * @param {number} from seconds of the reply that were heard already
   */
  play(chunk, from) {
    const skipped = Math.max(0, Math.round((from - chunk.start) * chunk.rate));
    const pcm = chunk.pcm.subarray(skipped);
    if (!pcm.length) return;
    const buffer = this.context.createBuffer(1, pcm.length, chunk.rate);
    buffer.getChannelData(0).set(Float32Array.from(pcm, (sample) => sample / 32768));
    const node = this.context.createBufferSource();
    node.buffer = buffer;
    node.connect(this.context.destination);
    node.addEventListener("ended", () => {
      if (this.#nodes.delete(node) && !this.#nodes.size) this.silent();
    });
    const at = Math.max(this.#end, this.context.currentTime);
    node.start(at);
    this.#nodes.add(node);
    this.#end = at + buffer.duration;
    const start = chunk.start + skipped / chunk.rate;
    this.#placed.push({ at, start, duration: buffer.duration });
  }

  get playing() {
    return this.#nodes.size > 0;
  }

  /** Seconds of the reply that were heard; 0 before the first. */
  get time() {
    const now = this.context.currentTime;
    const last = this.#placed.findLast(({ at }) => at <= now);
    return last ? last.start + Math.min(now - last.at, last.duration) : 0;
  }

  stop() {
    for (const node of this.#nodes) {
      node.disconnect();
      node.stop();
    }
    this.#nodes.clear();
    this.#end = 0;
  }
}
