"""The understanding engines that a profile can name, as ``module:Class``."""

ENGINES = {"local": "e3rg.stages.understanding.local:LocalUnderstanding"}
