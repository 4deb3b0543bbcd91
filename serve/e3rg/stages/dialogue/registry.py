"""The dialogue engines that a profile can name, as ``module:Class``."""

ENGINES = {
    "llama": "e3rg.stages.dialogue.llama:LlamaDialogue",
    "openai": "e3rg.stages.dialogue.openai:OpenAIDialogue",
}
