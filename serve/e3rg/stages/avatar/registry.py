"""The avatar engines that a profile can name, as ``module:Class``."""

ENGINES = {"blendshape": "e3rg.stages.avatar.blendshape:BlendshapeAvatar"}
