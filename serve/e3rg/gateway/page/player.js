// Plays a reply while it arrives: fragmented MP4 through MediaSource, or sound alone.

export class Player {
  // `silent` is called when nothing is played any more.
  constructor(video, portrait, silent) {
    this.video = video;
    this.portrait = portrait;
    this.silent = silent;
    this.video.addEventListener("ended", () => {
      this.rest();
      this.source = null;
      if (this.voiceOnly) this.speak();
      else this.silent();
    });
  }

  get playing() {
    return Boolean(this.source) || this.soundEnd > (this.audio?.currentTime ?? Infinity);
  }

  start() {
    this.stop();
    // Created in the click that sends, so that the browser lets sound play.
    this.audio = new AudioContext();
    this.soundEnd = 0;
    this.pending = [];
    this.sounds = [];
    this.filmed = 0; // seconds of the reply that the video holds
    this.voiceOnly = false;
  }

  append(segment) {
    if (!window.MediaSource?.isTypeSupported(segment.mime)) return;
    this.pending.push(bytes(segment.data));
    this.filmed += segment.frames / 25;
    if (!this.source) {
      const source = (this.source = new MediaSource());
      this.video.src = URL.createObjectURL(source);
      source.addEventListener("sourceopen", () => {
        URL.revokeObjectURL(this.video.src);
        if (this.source !== source || source.readyState !== "open") return;
        this.buffer = source.addSourceBuffer(segment.mime);
        this.buffer.addEventListener("updateend", () => this.pump());
        this.pump();
      }, { once: true });
      this.video.hidden = false;
      this.portrait.hidden = true;
      this.video.play().catch(() => { this.video.controls = true; });
    }
    this.pump();
  }

  pump() {
    if (!this.source || !this.buffer || this.buffer.updating) return;
    if (this.source.readyState !== "open") return;
    if (this.pending.length) this.buffer.appendBuffer(this.pending.shift());
    else if (this.ended) this.source.endOfStream();
  }

  // Sound that comes without frames; while there is video, its own track is heard.
  sound(chunk) {
    this.sounds.push(chunk);
    if (this.voiceOnly && !this.source) this.speak();
  }

  // No more pictures will come: what the video does not hold is spoken, after the video if there is one.
  goOnWithoutPictures() {
    this.voiceOnly = true;
    this.ended = true;
    if (this.source) this.pump();
    else this.speak();
  }

  speak() {
    for (const chunk of this.sounds.splice(0)) {
      const heard = Math.max(0, Math.round((this.filmed - chunk.start) * chunk.sample_rate));
      const raw = bytes(chunk.data).slice(2 * heard);
      if (raw.length < 2) continue;
      const samples = new Int16Array(raw.buffer, 0, raw.length >> 1);
      const buffer = this.audio.createBuffer(1, samples.length, chunk.sample_rate);
      buffer.getChannelData(0).set(Float32Array.from(samples, (sample) => sample / 32768));
      const node = this.audio.createBufferSource();
      node.buffer = buffer;
      node.connect(this.audio.destination);
      this.soundEnd = Math.max(this.soundEnd, this.audio.currentTime);
      node.start(this.soundEnd);
      node.addEventListener("ended", () => { if (!this.playing) this.silent(); });
      this.soundEnd += buffer.duration;
    }
  }

  end() {
    this.ended = true;
    if (this.source) this.pump();
    else if (this.sounds?.length) this.speak();
  }

  rest() {
    this.video.hidden = true;
    this.portrait.hidden = false;
  }

  stop() {
    this.video.pause();
    this.video.removeAttribute("src");
    this.video.load();
    this.audio?.close();
    this.audio = this.source = this.buffer = null;
    this.ended = false;
    this.pending = [];
    this.rest();
  }
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}
