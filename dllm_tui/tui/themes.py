"""Our themes as Textual knows them. The colours by meaning become CSS variables of the same names.

``$mask $guess $fresh $changed $muted $block-a $block-b`` and the ramp ``$conf-0`` … ``$conf-7``; beside
them Textual's own variables are set so that its stock widgets keep the same calm.
"""

from textual.theme import Theme as TextualTheme

from dllm_tui.theming import Theme


def textual_theme(theme: Theme) -> TextualTheme:
    """The theme to register with an app."""
    return TextualTheme(
        name=theme.name,
        primary=theme.accent,
        secondary=theme.accent,
        accent=theme.accent,
        success=theme.success,
        warning=theme.warning,
        error=theme.error,
        foreground=theme.foreground,
        background=theme.background,
        surface=theme.surface,
        panel=theme.panel,
        dark=theme.dark,
        ansi=theme.ansi,
        variables=variables(theme),
    )


def variables(theme: Theme) -> dict[str, str]:
    """CSS variables of a theme, without the ``$``."""
    # On the terminal's own colours nothing may be assumed of the background: a cursor inverts what is there.
    on_accent = "ansi_default" if theme.ansi else theme.background
    return {
        "mask": theme.mask,
        "guess": theme.guess,
        "fresh": theme.fresh,
        "changed": theme.changed,
        "muted": theme.muted,
        "block-a": theme.block_a,
        "block-b": theme.block_b,
        **{f"conf-{step}": colour for step, colour in enumerate(theme.ramp)},
        "frame": theme.border,
        "on-accent": on_accent,
        "text-muted": theme.muted,
        "text-disabled": theme.muted,
        "border": theme.accent,
        "border-blurred": theme.border,
        "block-cursor-foreground": on_accent,
        "block-cursor-background": theme.accent,
        "block-cursor-text-style": "bold reverse" if theme.ansi else "bold",
        "block-cursor-blurred-foreground": theme.foreground,
        "block-cursor-blurred-background": theme.fresh,
        "block-hover-background": theme.fresh,
        "input-cursor-foreground": on_accent,
        "input-cursor-background": theme.accent,
        "input-cursor-text-style": "reverse" if theme.ansi else "none",
        "input-selection-background": theme.fresh,
        "input-selection-foreground": theme.foreground,
        "screen-selection-background": theme.fresh,
        "screen-selection-foreground": theme.foreground,
        "scrollbar": theme.border,
        "scrollbar-hover": theme.muted,
        "scrollbar-active": theme.accent,
        "scrollbar-background": theme.background,
        "scrollbar-background-hover": theme.background,
        "scrollbar-background-active": theme.background,
        "scrollbar-corner-color": theme.background,
        "link-color": theme.accent,
        "link-color-hover": theme.accent,
        "link-background-hover": theme.background,
        "markdown-h1-color": theme.accent,
        "markdown-h2-color": theme.accent,
        "markdown-h3-color": theme.foreground,
    }
