"""From an autoregressive checkpoint to a block-diffusion one.

The idea is Fast-dLLM v2's (arXiv 2509.26328): a pretrained autoregressive model learns to fill blocks of
masks with little training. Here the *clean stream* (what is decided) stays the base model to the last bit,
and the *noised stream* (the block being filled) alone is adapted: low-rank factors on its linear layers and
an embedding for the mask. The modules, in the order in which data runs through them:

- :mod:`dllm_tui.engine.autoregressive`: the checkpoint to start from;
- :mod:`~dllm_tui.adapt.prompts`, :mod:`~dllm_tui.adapt.selfmade`, :mod:`~dllm_tui.adapt.data`: the chats;
- :mod:`~dllm_tui.adapt.readings`: what the clean stream says of it;
- :mod:`~dllm_tui.adapt.windows`: which blocks of a chat are noised, and how;
- :mod:`~dllm_tui.adapt.network`, :mod:`~dllm_tui.adapt.lowrank`: both streams, and what is trained;
- :mod:`~dllm_tui.adapt.loss`, :mod:`~dllm_tui.adapt.training`: how;
- :mod:`~dllm_tui.adapt.validation`: what it has come to.
"""
