"""The loop against slow references, and its promises: stop, cancel, live knobs, seeds, events."""

import itertools
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_tui.engine import Engine
from dllm_tui.errors import EngineError
from dllm_tui.events import BlockStart, Canvas, Commit, Done, Error, KnobChange, Pieces, RunStart, Step
from dllm_tui.families.family import Attention, Revision
from dllm_tui.knobs import Knobs, LiveKnobs
from tests.engine import reference
from tests.engine.tiny import REAL_MASK, STOP, TinyNet, tiny_model

POLICIES = ("confidence", "streaming", "sequential", "margin", "entropy")


def knobs(**changes) -> Knobs:
    return Knobs(steps=32, block_size=8, threshold=0.5, max_new_tokens=20).replace(**changes)


def run(model, prompt, setting, **options):
    events = list(Engine(model).generate(prompt, setting, **options))
    assert isinstance(events[0], RunStart)
    assert isinstance(events[-1], Done)
    return events


def answer(model, prompt, setting) -> list[int]:
    return list(run(model, prompt, setting)[-1].token_ids)


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return torch.randint(4, REAL_MASK, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("length", "size", "steps"), [(1, 4, 32), (5, 8, 3), (17, 16, 5), (9, 3, 1), (6, 1, 8)]
)
def test_two_streams_equal_the_slow_reference(policy, length, size, steps):
    net = TinyNet(seed=length)
    prompt = prompt_of(length)
    setting = knobs(policy=policy, block_size=size, steps=steps)
    expected = reference.two_streams(
        net, prompt, size=size, count=20, policy=policy, steps=steps, threshold=0.5, bound=0.35
    )
    assert answer(tiny_model(net, two_streams=True), prompt, setting) == expected


@pytest.mark.parametrize("policy", ["confidence", "streaming", "entropy"])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("pattern", ["absolute", "response", "full"])
@pytest.mark.parametrize(("length", "size"), [(3, 8), (8, 4), (13, 5)])
def test_one_stream_equals_the_slow_reference(policy, shift, pattern, length, size):
    net = TinyNet(seed=length + shift)
    prompt = prompt_of(length)
    model = tiny_model(
        net,
        attention=Attention.FULL if pattern == "full" else Attention.BLOCK_CAUSAL,
        shift=shift,
        grid=None if pattern == "full" else size,
        response_grid=pattern == "response",
    )
    expected = reference.one_stream(
        net, prompt, size=size, count=20, policy=policy, steps=6, threshold=0.5, shift=shift, pattern=pattern
    )
    assert answer(model, prompt, knobs(policy=policy, block_size=size, steps=6)) == expected
    assert REAL_MASK not in expected


@pytest.mark.parametrize("pattern", ["two streams", "absolute", "full"])
@pytest.mark.parametrize("policy", ["confidence", "streaming"])
def test_stops_like_the_slow_reference_and_denoises_nothing_after(pattern, policy):
    stops = 0
    for seed in range(12):
        net = TinyNet(seed=seed, stop_bias=7.0)
        prompt = prompt_of(7, seed)
        setting = knobs(policy=policy, max_new_tokens=40)
        options = {"size": 8, "count": 40, "policy": policy, "steps": 32, "threshold": 0.5, "stop": STOP}
        if pattern == "two streams":
            model = tiny_model(net, two_streams=True, stops=frozenset({STOP}))
            expected = reference.two_streams(net, prompt, **options)
        else:
            attention = Attention.FULL if pattern == "full" else Attention.BLOCK_CAUSAL
            model = tiny_model(net, attention=attention, grid=8, stops=frozenset({STOP}))
            expected = reference.one_stream(net, prompt, pattern=pattern, **options)
        events = run(model, prompt, setting)
        done = events[-1]
        assert list(done.token_ids) == expected
        assert done.tokens == len(expected)
        if expected[-1] == STOP:
            stops += 1
            assert done.reason == "stop"
            last = [event for event in events if isinstance(event, Step)][-1]
            assert last.length == len(expected)
        else:
            assert done.reason == "length"
    assert stops > 1


@pytest.mark.parametrize("steps", [1, 3, 32])
@pytest.mark.parametrize("size", [1, 2, 5, 8, 16])
def test_verify_is_greedy_autoregressive_decoding(size, steps):
    for seed in range(4):
        net = TinyNet(seed=seed, stop_bias=1.0 if seed % 2 else 0.0)
        prompt = prompt_of(4 + seed, seed)
        model = tiny_model(net, two_streams=True, stops=frozenset({STOP}))
        setting = knobs(policy="verify", block_size=size, steps=steps, max_new_tokens=23)
        assert answer(model, prompt, setting) == reference.greedy(net, prompt, 23, STOP)


def test_a_decided_token_is_read_once(monkeypatch):
    model = tiny_model(two_streams=True)
    rows, forward = [], model.backbone.forward
    monkeypatch.setattr(
        model.backbone,
        "forward",
        lambda ids, *given, **named: (rows.append(len(ids)), forward(ids, *given, **named))[1],
    )
    run(model, prompt_of(4), knobs(policy="sequential", steps=8, block_size=8, max_new_tokens=16))
    # From the last decided token on in each denoising forward; the commit forward is left the very last.
    assert rows == [4, *(8, 7, 6, 5, 4, 3, 2, 1), *(8, 7, 6, 5, 4, 3, 2, 1)]


def test_verify_shows_what_it_rejects_and_spends_no_forward_on_it():
    model = tiny_model(TinyNet(seed=1), two_streams=True)
    events = run(model, prompt_of(5), knobs(policy="verify", steps=1))
    kinds = {change.kind for event in events if isinstance(event, Step) for change in event.changes}
    assert "remask" in kinds
    done = events[-1]
    assert done.nfe_by_phase["denoise"] <= done.nfe_by_phase["commit"]
    assert model.backbone.calls == done.nfe


def test_block_size_one_is_autoregressive_too():
    net = TinyNet(seed=2)
    model = tiny_model(net, two_streams=True)
    events = run(model, prompt_of(6), knobs(block_size=1, max_new_tokens=12))
    assert list(events[-1].token_ids) == reference.greedy(net, prompt_of(6), 12)
    assert events[-1].nfe_by_phase["denoise"] == 0


def test_verify_is_refused_where_there_is_no_autoregressive_stream():
    with pytest.raises(EngineError, match="verify"):
        Engine(tiny_model(grid=8)).generate([5], knobs(policy="verify"))


SETTINGS = st.fixed_dictionaries(
    {
        "policy": st.sampled_from([*POLICIES, "random", "verify"]),
        "steps": st.integers(1, 10),
        "block_size": st.integers(1, 17),
        "threshold": st.floats(0, 1),
        "temperature": st.sampled_from([0.0, 0.7, 2.0]),
        "top_k": st.sampled_from([0, 5]),
        "top_p": st.sampled_from([1.0, 0.8]),
        "max_new_tokens": st.integers(1, 30),
        "distance_penalty": st.sampled_from([0.0, 0.1]),
        "seed": st.just(1),
    }
)
FAMILIES = {
    "two streams": {"two_streams": True},
    "absolute": {"grid": 6},
    "shifted": {"grid": 4, "shift": 1},
    "response": {"grid": 5, "response_grid": True},
    "full": {"attention": Attention.FULL},
    "editing": {"grid": 6, "revision": Revision.EDIT},
}


@settings(max_examples=60, deadline=None)
@given(
    setting=SETTINGS,
    family=st.sampled_from(sorted(FAMILIES)),
    length=st.integers(1, 19),
    seed=st.integers(0, 5),
    context=st.sampled_from([24, 256]),
)
def test_events_rebuild_the_canvas_and_keep_the_rules(setting, family, length, seed, context):
    if setting["policy"] == "verify" and family != "two streams":
        setting = {**setting, "policy": "confidence"}
    net = TinyNet(seed=seed, stop_bias=1.0)
    model = tiny_model(net, stops=frozenset({STOP}), context_length=context, **FAMILIES[family])
    wanted = Knobs(**setting)
    events = run(model, prompt_of(length), wanted)
    done, steps = events[-1], [event for event in events if isinstance(event, Step)]
    canvas = Canvas()
    for step in steps:
        canvas.apply(step)
        masks = {at for at, token in enumerate(canvas.cells) if token is None}
        assert {guess.position for guess in step.guesses} <= masks
        assert all(0 <= change.confidence <= 1.001 for change in step.changes)
    assert [token for token in canvas.cells if token is not None] == list(done.token_ids)
    assert None not in canvas.cells
    assert [step.nfe for step in steps] == list(range(1, len(steps) + 1))
    assert done.nfe == len(steps) == model.backbone.calls == sum(done.nfe_by_phase.values())
    assert done.tokens == len(done.token_ids) <= setting["max_new_tokens"]
    assert length + done.tokens <= context
    assert REAL_MASK not in done.token_ids or family == "two streams"
    if done.reason == "stop":
        assert done.token_ids.index(STOP) == done.tokens - 1
    else:
        limit = setting["max_new_tokens"] if done.reason == "length" else context - length
        assert done.tokens == limit
        assert STOP not in done.token_ids
    committed = [range(event.start, event.end) for event in events if isinstance(event, Commit)]
    assert sorted(itertools.chain(*committed)) == list(range(done.tokens))
    for phase, count in done.nfe_by_phase.items():
        assert count == sum(step.phase == phase for step in steps)
        assert done.seconds_by_phase[phase] >= 0
    # A setting reproduces its answer.
    again = run(
        tiny_model(net, stops=frozenset({STOP}), context_length=context, **FAMILIES[family]),
        prompt_of(length),
        wanted,
    )[-1]
    assert (again.token_ids, again.nfe) == (done.token_ids, done.nfe)


def test_steps_bound_the_forwards_of_a_block():
    for steps in (1, 2, 3, 5, 7):
        events = run(
            tiny_model(two_streams=True), prompt_of(4), knobs(steps=steps, threshold=1.0, block_size=8)
        )
        blocks = [event for event in events if isinstance(event, BlockStart)]
        for block in blocks[:-1]:
            count = sum(
                isinstance(e, Step) and e.phase == "denoise" and e.block == block.block for e in events
            )
            assert count == min(steps, 7)


def test_temperature_samples_and_the_seed_decides():
    model = tiny_model(two_streams=True)
    hot = knobs(temperature=1.5, max_new_tokens=24)
    answers = {seed: tuple(answer(model, prompt_of(5), hot.replace(seed=seed))) for seed in range(5)}
    assert len(set(answers.values())) == 5
    assert tuple(answer(model, prompt_of(5), hot.replace(seed=3))) == answers[3]
    drawn = run(model, prompt_of(5), hot)[0].seed
    first, second = (answer(model, prompt_of(5), hot.replace(seed=drawn)) for _ in range(2))
    assert first == second
    cold = answer(model, prompt_of(5), knobs(max_new_tokens=24))
    assert answer(model, prompt_of(5), hot.replace(top_k=1, max_new_tokens=24)) == cold


def test_verify_with_temperature_samples_from_the_autoregressive_model():
    net = TinyNet(seed=3)
    model = tiny_model(net, two_streams=True)
    prompt = prompt_of(5)
    setting = knobs(policy="verify", steps=1, block_size=3, temperature=1.0, max_new_tokens=2)
    counts = torch.zeros(64)
    first = reference.clean_logits(net, prompt)[-1].softmax(-1)
    best = int(first.argmax())
    seconds = reference.clean_logits(net, [*prompt, best])[-1].softmax(-1)
    for seed in range(300):
        tokens = answer(model, prompt, setting.replace(seed=seed))
        if tokens[0] == best:
            counts[tokens[1]] += 1
    assert abs(counts.sum() / 300 - first[best]) < 0.1
    assert (counts / counts.sum() - seconds).abs().max() < 0.12


def test_a_knob_turned_while_it_runs_holds_from_the_next_step():
    live = LiveKnobs(knobs(steps=32, threshold=1.0, block_size=8, max_new_tokens=40))
    events, sizes = [], []
    for event in Engine(tiny_model(two_streams=True)).generate(prompt_of(4), live):
        events.append(event)
        if isinstance(event, Step) and event.phase == "denoise" and event.step == 2 and event.block == 0:
            live.turn(steps=3, block_size=4, seed=9)
        if isinstance(event, BlockStart):
            sizes.append(event.end - event.start)
    change = next(event for event in events if isinstance(event, KnobChange))
    assert change.changes == {"steps": 3, "block_size": 4}
    first = [e for e in events if isinstance(e, Step) and e.phase == "denoise" and e.block == 0]
    assert len(first) == 3
    assert sizes[:3] == [8, 4, 4]


def test_the_answer_can_be_shortened_while_it_runs():
    live = LiveKnobs(knobs(max_new_tokens=64, threshold=1.0))
    tokens = 0
    for event in Engine(tiny_model(two_streams=True)).generate(prompt_of(4), live):
        if isinstance(event, Step) and event.block == 1 and event.step == 1:
            live.turn(max_new_tokens=12)
        if isinstance(event, Done):
            tokens = event.tokens
            assert event.reason == "length"
    assert tokens == 12


@pytest.mark.parametrize("policy", ["confidence", "verify"])
def test_shortening_below_what_is_final_ends_it_at_the_last_finished_block(policy):
    live = LiveKnobs(knobs(max_new_tokens=64, threshold=1.0, policy=policy, block_size=4))
    events = []
    for event in Engine(tiny_model(two_streams=True)).generate(prompt_of(4), live):
        events.append(event)
        if isinstance(event, Step) and event.block == 2 and event.step == 1:
            live.turn(max_new_tokens=1)
    finished = [event.end for event in events if isinstance(event, Commit)]
    assert events[-1].tokens == finished[-1] > 1
    assert events[-1].reason == "length"


def test_turning_to_a_policy_that_the_family_lacks_is_reported_and_left():
    live = LiveKnobs(knobs())
    events = []
    for event in Engine(tiny_model(grid=8)).generate(prompt_of(4), live):
        events.append(event)
        if isinstance(event, Step) and event.nfe == 1:
            live.turn(policy="verify", threshold=0.9)
    assert [event.changes for event in events if isinstance(event, KnobChange)] == [{"threshold": 0.9}]
    assert any(isinstance(event, Error) for event in events)
    assert events[-1].reason == "length"


def test_cancel_takes_effect_before_the_next_forward():
    model = tiny_model(two_streams=True)
    stop = threading.Event()
    events = []
    for event in Engine(model).generate(prompt_of(4), knobs(threshold=1.0), should_stop=stop.is_set):
        events.append(event)
        if isinstance(event, Step) and event.nfe == 4:
            stop.set()
    assert model.backbone.calls == 4
    assert events[-1].reason == "cancelled"
    assert events[-1].tokens == 4


def test_closing_the_iterator_stops_it():
    model = tiny_model(two_streams=True)
    events = Engine(model).generate(prompt_of(4), knobs(threshold=1.0))
    for event in events:
        if isinstance(event, Step) and event.nfe == 2:
            break
    events.close()
    assert model.backbone.calls == 2


class Sour:
    """A backbone that runs out of memory at a forward."""

    def __init__(self, backbone, at: int, error: Exception) -> None:
        self.backbone, self.at, self.error = backbone, at, error

    def __getattr__(self, name):
        return getattr(self.backbone, name)

    def forward(self, *args, **options):
        if self.backbone.calls == self.at:
            raise self.error
        return self.backbone.forward(*args, **options)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes."),
    ],
)
def test_running_out_of_memory_is_reported_and_survived(error):
    from dataclasses import replace

    model = tiny_model(two_streams=True)
    sour = replace(model, backbone=Sour(model.backbone, 3, error))
    engine = Engine(sour)
    events = list(engine.generate(prompt_of(4), knobs()))
    assert isinstance(events[-2], Error)
    assert "memory" in events[-2].message
    assert events[-1].reason == "error"
    sour.backbone.at = -1
    assert list(engine.generate(prompt_of(4), knobs()))[-1].reason == "length"


def test_other_errors_are_not_swallowed():
    from dataclasses import replace

    model = tiny_model(two_streams=True)
    sour = replace(model, backbone=Sour(model.backbone, 1, RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        list(Engine(sour).generate(prompt_of(4), knobs()))


@pytest.mark.parametrize(
    ("prompt", "message"),
    [([], "empty"), ([5] * 256, "256 tokens"), ([64], "64"), ([-1], "-1")],
)
def test_prompts_that_cannot_be_read_are_refused_at_once(prompt, message):
    with pytest.raises(EngineError, match=message):
        Engine(tiny_model(two_streams=True)).generate(prompt, knobs())


def test_the_context_ends_the_answer():
    model = tiny_model(two_streams=True, context_length=20)
    done = run(model, prompt_of(9), knobs(max_new_tokens=100))[-1]
    assert (done.reason, done.tokens) == ("context", 11)


class Words:
    sha256, vocab_size = "", 64

    def encode(self, text):
        return [int(word) for word in text.split()]

    def encode_chat(self, messages):
        return self.encode(messages[-1].text)

    def piece(self, token_id):
        return f"{token_id} ".encode()

    def is_special(self, token_id):
        return token_id == STOP


def test_bytes_come_before_the_first_use_of_an_id():
    net = TinyNet(seed=4, stop_bias=2.0)
    model = tiny_model(net, two_streams=True, stops=frozenset({STOP}), tokenizer=Words())
    known: dict[int, bytes] = {}
    special: set[int] = set()
    for event in Engine(model).generate(prompt_of(4), knobs(), alternatives=3):
        if isinstance(event, Pieces):
            assert not known.keys() & event.pieces.keys()
            known |= event.pieces
            special |= set(event.special)
        if isinstance(event, Step):
            named = {change.token_id for change in event.changes} - {None}
            for guess in event.guesses:
                assert len(guess.top) == 3
                assert guess.top[0] == (guess.token_id, pytest.approx(guess.confidence, abs=1e-5))
                named |= {guess.token_id, *(token for token, _ in guess.top)}
            assert named <= known.keys()
    assert special == {STOP} & known.keys()
    assert known[7] == b"7 " if 7 in known else True


def test_editing_replaces_what_the_model_contradicts():
    setting = knobs(threshold=0.2, edit_threshold=0.2, max_new_tokens=18)
    edits = 0
    for seed in range(4):
        model = tiny_model(TinyNet(seed=seed), grid=6, revision=Revision.EDIT)
        events = run(model, prompt_of(4), setting)
        edits += sum(c.kind == "edit" for e in events if isinstance(e, Step) for c in e.changes)
        assert events[-1].tokens == 18
    assert edits > 0


def test_logits_are_the_familys_own():
    net, ids = TinyNet(seed=5), prompt_of(11)
    clean = Engine(tiny_model(net, two_streams=True)).logits(ids)
    assert torch.allclose(clean, reference.clean_logits(net, ids), atol=1e-5)
    blocks = Engine(tiny_model(net, grid=4)).logits(ids)
    assert torch.allclose(blocks, reference.block_causal_logits(net, ids, 4), atol=1e-5)
    full = Engine(tiny_model(net, attention=Attention.FULL)).logits([*ids, REAL_MASK])
    assert torch.allclose(full, reference.full_logits(net, [*ids, REAL_MASK]), atol=1e-5)
