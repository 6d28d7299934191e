"""The model card that lies beside an adapter."""

import json
from collections.abc import Mapping

from dllm_tui.adapt.training import Recipe
from dllm_tui.adapt.validation import Forecast


def card(about: Mapping[str, str], recipe: Recipe, figures: Forecast | None) -> str:
    """What an adapter is, in Markdown.

    Args:
        about: its metadata.
        recipe: how it was trained.
        figures: what an adapter can be expected to do; ``None`` for a whole checkpoint.
    """
    data = json.loads(about["data"])
    facts = f"""\
- base: {about["base"]} (`{about["base_source"]}`), whose licence holds for this too; SHA-256 \
`{about["base_sha256"]}`
- data: {data["chats"]} chats or texts, {data["tokens"]} tokens that are learnt, SHA-256 `{data["sha256"]}`
- seen: {about["tokens_seen"]} window positions, {about["tokens_learnt"]} masked tokens
- recipe: `{about["recipe"]}`
"""
    if figures is None:
        return f"""# {about["base"]}, turned into a block-diffusion model

Made by `dllm-chat adapt --whole`, in the form of Fast-dLLM v2, in blocks of {max(recipe.noise.sizes)}.
Chat with it: `dllm-chat --model` and this directory.

{facts}"""
    accuracy = " | ".join(f"{share:.2f}" for share in figures.accuracy)
    heads = " | ".join(map(str, range(1, len(figures.accuracy) + 1)))
    return f"""# A block-diffusion adapter for {about["base"]}

Made by `dllm-chat adapt`. Chat with it: `dllm-chat --model` and this directory. The adapter acts on masks
alone: what is decided is read by the base model as it is. So the first mask of a block gets the base's own
token, and `--policy verify` gives its own greedy answers.

{facts}
Of held-out chats, blocks of 8 whose first token alone is known:

| masks to the left | {heads} |
|---|{"---|" * len(figures.accuracy)}
| best guess is right | {accuracy} |

`verify` can be expected to keep {figures.verified:.2f} tokens a cycle, and decoding from the left to commit \
{figures.tokens:.2f} a denoising forward at threshold {figures.threshold:.2f}, where 95 % of them are right.

It is as limited as its base is, and drafts worse the further it looks ahead: with a lower threshold it is
faster and says more that the base would not.
"""
