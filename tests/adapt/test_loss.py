"""The fused loss and the low-rank product against autograd on the plain formulas."""

import pytest
import torch
from torch.nn import functional

from dllm_tui.adapt import loss as fused
from dllm_tui.adapt.loss import Target, loss
from dllm_tui.adapt.lowrank import LowRank
from dllm_tui.adapt.network import Network
from tests.adapt.tiny import CPU, geometry, stirred, weights


def test_loss_and_its_gradient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fused, "CHUNK", 3)
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(8, 6, generator=random, requires_grad=True)
    head = torch.randn(20, 6, generator=random)
    chances = torch.rand(8, 4, generator=random)
    target = Target(
        torch.randint(0, 20, (8,), generator=random),
        torch.rand(8, generator=random),
        torch.stack([torch.randperm(20, generator=random)[:4] for _ in range(8)]),
        chances / chances.sum(-1, keepdim=True),
        0.3,
    )
    value, right = loss(hidden, head, target)
    (mine,) = torch.autograd.grad(2 * value, hidden)
    logits = hidden @ head.T
    distil = target.distil
    wanted = (1 - distil) * functional.one_hot(target.token, 20).float()
    wanted = wanted.scatter_add(1, target.teacher_tokens, distil * target.teacher_chances)
    plain = (target.weight * -(wanted * logits.log_softmax(-1)).sum(-1)).sum()
    (theirs,) = torch.autograd.grad(2 * plain, hidden)
    torch.testing.assert_close(value, plain)
    torch.testing.assert_close(mine, theirs)
    assert right.tolist() == (logits.argmax(-1) == target.token).tolist()


@pytest.mark.parametrize("targets", [(), ("q_proj", "v_proj", "down_proj")])
def test_adapted_products_and_their_gradients(targets: tuple[str, ...]):
    g = geometry()
    network = Network(g, weights(g), CPU, torch.float32)
    adapter = LowRank(network, rank=3, scale=0.7, targets=targets) if targets else stirred(network)
    for parameter in adapter.parameters.values():
        parameter.data += 0.1
    x = torch.randn(5, g.hidden_size, requires_grad=True)
    masked = torch.tensor([True, False, True, True, False])
    mine = adapter.on(masked)(1, "qkv", x)
    is_masked = masked[:, None].float()
    parts = []
    for name in "qkv":
        stem = f"layers.1.self_attn.{name}_proj"
        weight = network.layers[1].projections["qkv"].split([32, 16, 16])["qkv".index(name)]
        parts.append(x @ weight.T)
        if not targets or f"{name}_proj" in targets:
            down, up = adapter.parameters[f"{stem}.lora_A"], adapter.parameters[f"{stem}.lora_B"]
            parts[-1] = parts[-1] + is_masked * (x @ (adapter.scale * up @ down).T)
    plain = torch.cat(parts, dim=-1)
    torch.testing.assert_close(mine, plain)
    trained = [
        p for n, p in adapter.parameters.items() if n.startswith("layers.1.self_attn") and "o_proj" not in n
    ]
    grad = torch.randn_like(plain)
    for ours, theirs in zip(
        torch.autograd.grad(mine, [x, *trained], grad),
        torch.autograd.grad(plain, [x, *trained], grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
