"""The speech engines that a profile can name, as ``module:Class``."""

ENGINES = {"kokoro": "e3rg.stages.speech.kokoro:KokoroSpeech"}
