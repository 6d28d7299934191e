"""The sizes of a dense decoder, and with them the shape of each of its tensors. No torch here."""

from dataclasses import dataclass

from dllm_tui.errors import CheckpointError
from dllm_tui.families.layout import Network

LEAN = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
"""Networks that the lean backbone knows."""


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The sizes of a dense decoder."""

    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    norm_eps: float
    rope_theta: float
    context_length: int
    tied_head: bool
    """The head is the embedding table."""
    qkv_bias: bool = False
    """Qwen2."""
    qk_norm: bool = False
    """RMSNorm of every query and key head, Qwen3."""

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise CheckpointError(
                f"{self.heads} heads of width {self.head_dim} don't fit {self.kv_heads} key and value heads."
            )

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor of one layer by its name in the layer."""
        hidden, inner = self.hidden_size, self.intermediate_size
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (queries, hidden),
            "self_attn.k_proj.weight": (keys, hidden),
            "self_attn.v_proj.weight": (keys, hidden),
            "self_attn.o_proj.weight": (hidden, queries),
            "post_attention_layernorm.weight": (hidden,),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
        }
        if self.qkv_bias:
            shapes |= {
                f"self_attn.{n}_proj.bias": (w,) for n, w in zip("qkv", (queries, keys, keys), strict=True)
            }
        if self.qk_norm:
            shapes |= {f"self_attn.{n}_norm.weight": (self.head_dim,) for n in "qk"}
        return shapes

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor by its Hugging Face name."""
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab_size, self.hidden_size),
            "model.norm.weight": (self.hidden_size,),
        }
        if not self.tied_head:
            shapes["lm_head.weight"] = (self.vocab_size, self.hidden_size)
        for layer in range(self.layers):
            shapes |= {f"model.layers.{layer}.{name}": s for name, s in self.layer_shapes().items()}
        return shapes


def geometry_of(network: Network) -> Geometry | None:
    """The sizes for the lean backbone, or ``None`` where it doesn't know the network."""
    o = network.options
    if network.kind not in LEAN or o["rope_parameters"].get("rope_type") != "default":
        return None
    return Geometry(
        vocab_size=o["vocab_size"],
        hidden_size=o["hidden_size"],
        layers=o["num_hidden_layers"],
        heads=o["num_attention_heads"],
        kv_heads=o["num_key_value_heads"],
        head_dim=o.get("head_dim", o["hidden_size"] // o["num_attention_heads"]),
        intermediate_size=o["intermediate_size"],
        norm_eps=o["rms_norm_eps"],
        rope_theta=o["rope_parameters"]["rope_theta"],
        context_length=o["max_position_embeddings"],
        tied_head=o["tie_word_embeddings"],
        qkv_bias=network.kind == "Qwen2ForCausalLM",
        qk_norm=network.kind == "Qwen3ForCausalLM",
    )
