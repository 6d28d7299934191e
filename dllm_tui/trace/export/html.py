"""One HTML file that plays by itself: the asciinema player and the cast in it, nothing to be fetched."""

import json
from html import escape
from importlib import resources
from typing import TextIO

from dllm_tui.trace.export import cast
from dllm_tui.trace.frames import Film, hexed

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="dllm-chat">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{player_style}
</style>
<style>
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; }}
body {{ background: {background}; color: {foreground}; }}
#film {{ width: min(100vw, {width}px); }}
noscript {{ font: 16px/1.5 system-ui, sans-serif; padding: 2em; }}
.asciinema-player-theme-dllm-chat {{
  --term-color-foreground: {foreground};
  --term-color-background: {background};
{colours}}}
</style>
</head>
<body>
<div id="film"></div>
<noscript>This page plays a recording of dllm-chat; it needs JavaScript for that.</noscript>
<script type="application/json" id="cast">{cast}</script>
<script>
{player}
</script>
<script>
AsciinemaPlayer.create(
  {{ data: JSON.parse(document.getElementById("cast").textContent) }},
  document.getElementById("film"),
  {{ ...{options}, autoPlay: !matchMedia("(prefers-reduced-motion: reduce)").matches }}
);
</script>
</body>
</html>
"""

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
    "worker-src blob:; img-src data:; font-src data:"
)
"""Nothing may come from elsewhere."""


def write(film: Film, out: TextIO) -> None:
    """Write the page."""
    options = {
        "loop": True,
        "preload": True,
        "controls": True,
        "theme": "dllm-chat",
        "fit": "width",
        "terminalLineHeight": 1.16,  # as high as most fonts' lines are, so that frames have no gaps
    }
    out.write(
        _PAGE.format(
            policy=_POLICY,
            title=escape(film.title),
            background=hexed(film.background),
            foreground=hexed(film.foreground),
            width=film.width * 11,
            colours="".join(
                f"  --term-color-{number}: {hexed(colour)};\n" for number, colour in enumerate(film.palette)
            ),
            player_style=_asset("asciinema-player.css"),
            player=_asset("asciinema-player.min.js").replace("</script", "<\\/script"),
            # as a JSON string in which nothing looks like the end of the script
            cast=json.dumps("".join(cast.lines(film))).replace("<", "\\u003c"),
            options=json.dumps(options),
        )
    )


def _asset(name: str) -> str:
    return resources.files("dllm_tui.trace.export").joinpath("player", name).read_text(encoding="utf-8")
