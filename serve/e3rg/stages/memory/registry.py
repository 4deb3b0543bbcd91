"""The memory engines that a profile can name, as ``module:Class``."""

ENGINES = {"milvus": "e3rg.stages.memory.milvus:MilvusMemory"}
