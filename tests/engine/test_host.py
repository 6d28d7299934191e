"""The host: one worker, jobs in order, nothing that blocks or kills its caller."""

import subprocess
import sys
import threading
import time

import pytest

from dllm_tui.engine.api import Engine
from dllm_tui.engine.host import EngineHost
from dllm_tui.errors import EngineError
from dllm_tui.events import Canvas, Done, Error, KnobChange, RunStart, Step
from dllm_tui.knobs import Knobs, LiveKnobs
from dllm_tui.session import Message
from tests.engine.test_loop import Words
from tests.engine.tiny import TinyBackbone, TinyNet, tiny_model

ASK = [Message("user", "5 6 7")]


class Slow(TinyBackbone):
    """Every forward takes a while, or waits for a permit."""

    def __init__(self, pause: float = 0.0, gate: threading.Semaphore | None = None) -> None:
        super().__init__(TinyNet())
        self.pause, self.gate = pause, gate

    def forward(self, *args, **options):
        if self.gate:
            self.gate.acquire()
        time.sleep(self.pause)
        return super().forward(*args, **options)


class Panic(BaseException):
    """What a library written in Rust raises when it fails unforeseen."""


class Panicking(Words):
    def encode_chat(self, messages):
        raise Panic("out of bounds")


def engine(backbone=None, name: str = "tiny", tokenizer=None) -> Engine:
    from dataclasses import replace

    model = tiny_model(two_streams=True, tokenizer=tokenizer or Words())
    info = model.info.__class__(id=name, family="tiny")
    return Engine(replace(model, info=info, backbone=backbone or TinyBackbone(TinyNet())))


def wait_for(condition, timeout: float = 20.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it didn't happen in time"
        time.sleep(0.005)


@pytest.fixture
def host():
    hosts: list[EngineHost] = []

    def make(loader=None, **options) -> EngineHost:
        hosts.append(EngineHost(loader=loader or (lambda name, progress: engine(name=name)), **options))
        return hosts[-1]

    yield make
    for each in hosts:
        each.close()


def live(**changes) -> LiveKnobs:
    return LiveKnobs(Knobs(max_new_tokens=16, seed=1).replace(**changes))


def test_loads_and_answers(host):
    seen = []
    this = host()
    assert this.state.phase == "empty"
    this.load("tiny")
    assert this.state.phase in {"loading", "ready"}
    run = this.generate(ASK, live(), sinks=[seen.append], index=7)
    assert run.wait(20)
    assert this.state.phase == "ready"
    assert this.state.model.id == "tiny"
    assert this.state.defaults.block_size == 8
    assert seen == run.events
    assert isinstance(run.events[0], RunStart)
    assert run.done.reason == "length"
    assert {event.run for event in run.events} == {7}
    canvas = Canvas()
    for event in run.events:
        if isinstance(event, Step):
            canvas.apply(event)
    assert run.text(canvas.cells)


def test_what_its_licence_restricts_is_known_once_the_model_is_ready(host):
    from dataclasses import replace

    ready = engine()
    ready.model = replace(ready.model, family=replace(ready.family, notice="For research only."))
    this = host(lambda _name, _progress: ready)
    this.load("tiny")
    assert this.state.notice == ""
    wait_for(lambda: this.state.phase == "ready")
    assert this.state.notice == "For research only."


def test_a_sink_sees_an_event_before_the_run_has_it(host):
    counts = []
    this = host()
    this.load("tiny")
    box = []
    run = this.generate(ASK, live(), sinks=[lambda event: counts.append(len(box[0].events)) if box else None])
    box.append(run)
    assert run.wait(20)
    assert counts == list(range(len(run.events)))[-len(counts) :]


def test_reports_progress_and_readiness_as_new_objects(host):
    states, gate = [], threading.Event()

    def loader(name, progress):
        progress("downloading it (98 MB)", 0.25)
        states.append(this.state)
        progress("loading it", 0.5)
        states.append(this.state)
        gate.wait(5)
        return engine()

    this = host(loader)
    this.load("tiny")
    wait_for(lambda: len(states) == 2)
    assert [(s.phase, s.progress, s.detail) for s in states] == [
        ("fetching", 0.25, "downloading it (98 MB)"),
        ("loading", 0.5, "loading it"),
    ]
    gate.set()
    wait_for(lambda: this.state.phase == "ready")


def test_a_model_that_fails_says_why_and_another_can_be_loaded(host):
    def loader(name, progress):
        if name == "bad":
            raise EngineError("It is broken.", "Mend it.")
        if name == "huge":
            raise MemoryError
        if name == "odd":
            raise KeyError("weight")
        if name == "panic":
            raise Panic("out of bounds")
        return engine()

    this = host(loader)
    for name, message in (
        ("bad", "It is broken."),
        ("huge", "memory"),
        ("odd", "KeyError"),
        ("panic", "out of"),
    ):
        this.load(name)
        wait_for(lambda: this.state.phase == "failed")
        assert this.state.requested == name
        assert message in this.state.error.message
        run = this.generate(ASK, live())
        assert run.wait(20)
        assert isinstance(run.events[0], Error)
        assert message in run.events[0].message
        assert run.done.reason == "error"
    this.load("good")
    run = this.generate(ASK, live())
    assert run.wait(20)
    assert run.done.reason == "length"


def test_a_panic_ends_a_run_and_the_worker_lives(host):
    this = host(lambda name, progress: engine(tokenizer=Panicking() if name == "bad" else None))
    for name, reason in (("bad", "error"), ("bad", "error"), ("good", "length")):
        this.load(name)
        run = this.generate(ASK, live())
        assert run.wait(20)
        assert run.done.reason == reason


def test_no_model_is_an_error_in_the_run(host):
    run = host().generate(ASK, live())
    assert run.wait(20)
    assert "No model" in run.events[0].message


def test_bad_requests_are_errors_in_the_run(host):
    this = host()
    this.load("tiny")
    for messages, word in (
        ([Message("user", "")], "empty"),
        ([Message("user", "5 " * 300)], "300"),
        ([Message("user", "five")], "ValueError"),
    ):
        run = this.generate(messages, live())
        assert run.wait(20)
        assert word in run.events[0].message
        assert run.done.reason == "error"
    assert this.generate(ASK, live()).wait(20)


def test_cancel_ends_the_run_within_a_forward(host):
    gate = threading.Semaphore(0)
    backbone = Slow(gate=gate)
    this = host(lambda name, progress: engine(backbone))
    this.load("tiny")
    run = this.generate(ASK, live(threshold=1.0, steps=32))
    gate.release(3)
    wait_for(lambda: backbone.calls == 3)
    run.cancel()
    gate.release()
    assert run.wait(20)
    assert run.done.reason == "cancelled"
    assert backbone.calls <= 4
    gate.release(1000)
    assert this.generate(ASK, live()).wait(20)


def test_a_queued_run_that_is_cancelled_runs_no_forward(host):
    gate = threading.Semaphore(0)
    backbone = Slow(gate=gate)
    this = host(lambda name, progress: engine(backbone))
    this.load("tiny")
    first, second = this.generate(ASK, live()), this.generate(ASK, live())
    second.cancel()
    gate.release(1000)
    assert first.wait(20)
    assert second.wait(20)
    assert second.done.reason == "cancelled"
    assert backbone.calls == first.done.nfe


def test_knobs_turned_from_outside_reach_the_run(host):
    gate = threading.Semaphore(0)
    backbone = Slow(gate=gate)
    this = host(lambda name, progress: engine(backbone))
    this.load("tiny")
    knobs = live(threshold=1.0, steps=32)
    run = this.generate(ASK, knobs)
    gate.release(2)
    wait_for(lambda: backbone.calls == 2)
    knobs.turn(threshold=0.0)
    gate.release(1000)
    assert run.wait(20)
    assert [e.changes for e in run.events if isinstance(e, KnobChange)] == [{"threshold": 0.0}]


def test_loading_another_model_cancels_what_runs_and_frees_the_old_one_first(host):
    import weakref

    gate = threading.Semaphore(0)
    old: list[weakref.ref] = []
    alive_at_load = []

    def loader(name, progress):
        alive_at_load.append(any(ref() is not None for ref in old))
        made = engine(Slow(gate=gate) if name == "first" else None, name)
        old.append(weakref.ref(made))
        return made

    this = host(loader)
    this.load("first")
    running, waiting = this.generate(ASK, live()), this.generate(ASK, live())
    gate.release(2)
    wait_for(lambda: any(isinstance(event, Step) for event in running.events))
    this.load("second")
    after = this.generate(ASK, live())
    gate.release(1000)
    assert all(run.wait(20) for run in (running, waiting, after))
    assert running.done.reason == waiting.done.reason == "cancelled"
    assert after.done.reason == "length"
    assert this.state.model.id == "second"
    assert alive_at_load == [False, False]


def test_a_load_that_is_not_wanted_any_more_is_given_up(host):
    started, loaded = threading.Event(), []

    def loader(name, progress):
        started.set()
        if name == "slow":
            while True:
                progress("downloading slow", 0.1)
                time.sleep(0.005)
        loaded.append(name)
        return engine(name=name)

    this = host(loader)
    this.load("slow")
    started.wait(5)
    this.load("quick")
    wait_for(lambda: this.state.phase == "ready")
    assert loaded == ["quick"]
    assert this.state.requested == "quick"


def test_close_is_quick_whatever_goes_on(host):
    def loader(name, progress):
        while True:
            progress("downloading", 0.1)
            time.sleep(0.01)

    loading = host(loader)
    loading.load("tiny")
    waiting = loading.generate(ASK, live())

    stuck = host(lambda name, progress: engine(Slow(gate=threading.Semaphore(0))))
    stuck.load("tiny")
    stuck.generate(ASK, live())
    wait_for(lambda: stuck.state.phase == "ready")

    for this in (loading, stuck, host()):
        began = time.monotonic()
        this.close()
        assert time.monotonic() - began < 5.0  # its patience is a second; the rest is the machine
    assert waiting.wait(5)
    assert waiting.done.reason == "cancelled"
    late = loading.generate(ASK, live())
    assert late.done.reason == "cancelled"


def test_a_sink_that_fails_is_reported_once_and_the_answer_goes_on(host):
    def full(event):
        raise OSError(28, "No space left on device")

    seen = []
    this = host()
    this.load("tiny")
    run = this.generate(ASK, live(), sinks=[full, seen.append])
    assert run.wait(20)
    errors = [event for event in run.events if isinstance(event, Error)]
    assert len(errors) == 1
    assert "No space left" in errors[0].message
    assert run.done.reason == "length"
    assert isinstance(run.events[-1], Done)
    assert set(map(id, seen)) == set(map(id, run.events))


def test_an_unexpected_failure_in_the_network_keeps_what_was_there(host):
    class Broken(TinyBackbone):
        def forward(self, *args, **options):
            if self.calls == 4:
                raise RuntimeError("shape mismatch")
            return super().forward(*args, **options)

    this = host(lambda name, progress: engine(Broken(TinyNet())))
    this.load("tiny")
    run = this.generate(ASK, live(threshold=1.0, steps=32))
    assert run.wait(20)
    assert "shape mismatch" in run.events[-2].message
    assert run.done.reason == "error"
    assert (run.done.tokens, run.done.nfe) == (4, 4)


def loads(code: str) -> set[str]:
    """Which of the heavy packages are loaded after some code ran in a fresh interpreter."""
    heavy = ("torch", "transformers", "textual")
    code = f"import sys\n{code}\nprint(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_importing_the_host_loads_nothing_heavy():
    assert loads("import dllm_tui.engine.host") == set()


def test_asking_for_the_engine_loads_torch_alone_and_openmp_is_told_to_sleep_before():
    assert loads("import os, dllm_tui.engine\nassert os.environ['OMP_WAIT_POLICY'] == 'PASSIVE'") == set()
    assert loads("from dllm_tui.engine import Engine") == {"torch"}
