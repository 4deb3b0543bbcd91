// @ts-check
// AudioWorklet: the microphone as PCM16 at 24 kHz, 60 ms a piece, and how loud it is.
// https://www.w3.org/TR/webaudio/#AudioWorkletProcessor

const RATE = 24_000;
const PIECE = (RATE * 60) / 1000;
const ZEROS = 16; // of the filter's sinc, on each side

/** Resamples by a windowed sinc; one kernel for each phase that the two rates meet in. */
export class Resampler {
  /** @type {Map<number, Float32Array>} */
  #kernels = new Map();

  /** @param {number} rate that comes in, Hz */
  constructor(rate) {
    this.step = rate / RATE;
    this.cutoff = Math.min(1, 1 / this.step) * 0.92;
    this.half = Math.ceil(ZEROS / this.cutoff);
    this.held = new Float32Array(2 * this.half);
    this.at = this.half; // of the next sample out, in samples of `held`
  }

  /**
   * @param {Float32Array} input
   * @returns {Float32Array} what can be told by now
   */
  feed(input) {
    const data = new Float32Array(this.held.length + input.length);
    data.set(this.held);
    data.set(input, this.held.length);
    const count = Math.max(0, Math.ceil((data.length - this.half - this.at) / this.step));
    const output = new Float32Array(count);
    for (let index = 0; index < count; index += 1) {
      const at = this.at + index * this.step;
      const whole = Math.floor(at);
      const kernel = this.#kernel(at - whole);
      let sum = 0;
      for (let tap = 0; tap < kernel.length; tap += 1) sum += kernel[tap] * data[whole - this.half + 1 + tap];
      output[index] = sum;
    }
    const next = this.at + count * this.step;
    const gone = Math.max(0, Math.floor(next) - this.half);
    this.held = data.slice(gone);
    this.at = next - gone;
    return output;
  }

  /** @param {number} phase 0 to 1 */
  #kernel(phase) {
    const key = Math.round(phase * 480);
    let kernel = this.#kernels.get(key);
    if (!kernel) {
      kernel = new Float32Array(2 * this.half);
      for (let tap = 0; tap < kernel.length; tap += 1) {
        const x = tap - this.half + 1 - key / 480;
        const angle = Math.PI * x * this.cutoff;
        const window = 0.5 + 0.5 * Math.cos((Math.PI * x) / this.half);
        kernel[tap] = Math.abs(x) >= this.half ? 0 : this.cutoff * window * (angle ? Math.sin(angle) / angle : 1);
      }
      this.#kernels.set(key, kernel);
    }
    return kernel;
  }
}

/** @param {number} sample -1 to 1 */
const pcm16 = (sample) => Math.round(32767 * Math.max(-1, Math.min(1, sample)));

const scope = /** @type {any} */ (globalThis);

// Elsewhere than in a worklet only the resampler is of use.
if ("AudioWorkletProcessor" in scope) {
  class Capture extends scope.AudioWorkletProcessor {
    resampler = new Resampler(scope.sampleRate);
    piece = new Int16Array(PIECE);
    filled = 0;
    power = 0;

    /** @param {Float32Array[][]} inputs */
    process([channels]) {
      if (!channels.length) return true;
      for (const sample of this.resampler.feed(channels[0])) {
        this.piece[this.filled] = pcm16(sample);
        this.power += sample * sample;
        this.filled += 1;
        if (this.filled === PIECE) this.send();
      }
      return true;
    }

    send() {
      const { piece: pcm, power } = this;
      this.piece = new Int16Array(PIECE);
      this.filled = 0;
      this.power = 0;
      this.port.postMessage({ pcm, level: Math.sqrt(power / PIECE) }, [pcm.buffer]);
    }
  }
  scope.registerProcessor("capture", Capture);
}
