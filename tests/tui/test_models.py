"""Choosing a model in the app: facts on two lines, filtered by typing, or any name as it is typed."""

import msgspec

from dllm_tui.knobs import Knobs
from dllm_tui.settings import Settings
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.screens.pick import Pick
from tests.fakes import MODEL, FakeHost
from tests.tui.app_helpers import keys, make_app, said, until
from tests.tui.test_app import slider, written

MODELS = (
    Choice("smol", "smol", about="on disk, fits  135M  block 8"),
    Choice("org/large[b]", "org/large[b]", about="12.0 GB short  8B  whole canvas  MIT"),
    Choice("org/largest", "org/largest", about="99.0 GB short  80B  block 32  MIT"),
)


async def picking(pilot, app) -> None:
    await pilot.press("f2")
    await until(pilot, lambda: isinstance(app.screen, Pick) and app.screen.query("OptionList"))


async def test_facts_and_filter():
    host = FakeHost()
    app = make_app(host)
    app._models = lambda: MODELS
    async with app.run_test(size=(80, 24)) as pilot:
        await picking(pilot, app)
        options = app.screen.query_one("OptionList")
        shown = said(options).splitlines()
        assert [line.strip() for line in shown[:4]] == [
            "smol",
            MODELS[0].about,
            "org/large[b]",
            MODELS[1].about,
        ]
        await pilot.press(*keys("mit canvas"))
        await until(pilot, lambda: "org/large[b]" in said(options) and "smol" not in said(options))
        assert "org/largest" not in said(options)
        await pilot.press("enter")
        await until(pilot, lambda: host.loads == ["org/large[b]"])


async def test_what_is_typed_can_be_taken_though_others_match():
    host = FakeHost()
    app = make_app(host)
    app._models = lambda: MODELS
    async with app.run_test(size=(80, 24)) as pilot:
        await picking(pilot, app)
        await pilot.press(*keys("org/large"))
        options = app.screen.query_one("OptionList")
        await until(pilot, lambda: "taken as it is typed" in said(options))
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: host.loads == ["org/large"])


async def test_what_the_machine_lacks_for_a_model_is_told_at_the_start_and_when_one_is_taken():
    host = FakeHost()
    settings = Settings(model="org/first")
    app = make_app(
        host, settings=settings, check_model=lambda name: f"{name} needs 9 GB more. smol would fit."
    )
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: "org/first needs 9 GB more. smol would fit." in written(app))
        app.take_model("org/large")
        await until(pilot, lambda: "org/large needs 9 GB more. smol would fit." in written(app))
        assert host.loads == ["org/large"]


async def test_a_restricting_licence_is_told_when_the_model_is_ready():
    host = FakeHost(ready=False)
    app = make_app(host)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        assert "research" not in written(app)
        host.become_ready()
        host.state = msgspec.structs.replace(host.state, notice="For research [only].")
        await until(pilot, lambda: "For research [only]." in written(app))


async def test_what_was_set_and_the_model_lacks_is_told():
    app = make_app(settings=Settings(knobs={"cfg_scale": 3.0, "policy": "origin", "steps": 4}))
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: "smol doesn't have the knob cfg_scale: not trained" in written(app))
        assert "smol isn't made for the policy origin" in written(app)
        assert "steps" not in written(app)


async def test_knobs_that_the_next_model_lacks_are_disabled_with_the_reason():
    host = FakeHost()
    app = make_app(host)
    async with app.run_test(size=(110, 60)) as pilot:
        await pilot.pause()
        assert slider(app, "block_size").can_focus
        host.model = msgspec.structs.replace(MODEL, fixed_knobs={"block_size": "It has no blocks."})
        host.become_ready()
        app.take_model("org/other")
        await until(pilot, lambda: "It has no blocks." in said(slider(app, "block_size")))
        assert not slider(app, "block_size").can_focus


async def test_an_approximate_cache_is_called_so_wherever_it_is_met():
    host = FakeHost()
    host.model = msgspec.structs.replace(MODEL, cache="none", caches=("auto", "none", "prefix", "dual"))
    host.become_ready()
    app = make_app(host)
    async with app.run_test(size=(110, 60)) as pilot:
        await pilot.press(*keys("/more"), "enter")
        await until(pilot, lambda: app.screen.query("#knob-cache"))
        cache = app.screen.query_one("#knob-cache")
        assert "no cache" in said(app.screen.query_one("#status"))
        cache.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Pick) and app.screen.query("OptionList"))
        assert said(app.screen.query_one("OptionList")).count("approximate") == 2
        assert "exact " not in said(app.screen.query_one("OptionList")).replace("exact where", "")
        await pilot.press(*keys("prefix"), "enter")
        await until(pilot, lambda: "prefix, approximate" in said(cache))
        assert "approximate cache" in said(app.screen.query_one("#status"))
        host.model, host.defaults = msgspec.structs.replace(MODEL, caches=("auto", "exact")), Knobs()
        host.become_ready()
        app.take_model("org/other")
        await until(pilot, lambda: "The model's own is exact" in said(cache))
        assert app.session.knobs.cache == "auto"


async def test_where_the_cache_is_exact_there_is_none_to_choose():
    host = FakeHost()
    host.model = msgspec.structs.replace(MODEL, caches=("auto", "exact"))
    host.become_ready()
    app = make_app(host)
    async with app.run_test(size=(110, 60)) as pilot:
        await pilot.press(*keys("/more"), "enter")
        await until(pilot, lambda: app.screen.query("#knob-cache"))
        assert "The model's own is exact" in said(app.screen.query_one("#knob-cache"))
        assert not app.screen.query_one("#knob-cache").focusable
