"""Our themes as Textual takes them: colours by meaning become CSS variables.

Beside Textual's own variables, style sheets can use ``$muted``, ``$frame`` (lines that recede), ``$mask``,
``$guess``, ``$fresh``, ``$changed``, ``$block-a``, ``$block-b``, ``$on-accent`` (text on the accent colour)
and ``$ramp-0`` … ``$ramp-7``.
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
        boost="ansi_default" if theme.ansi else None,
        dark=theme.dark,
        ansi=theme.ansi,
        variables=_variables(theme),
    )


def _variables(theme: Theme) -> dict[str, str]:
    # On the terminal's own colours nothing is known of the background: what stands out is inverted there.
    on_accent = "ansi_default" if theme.ansi else theme.background
    behind_cursor = "ansi_default" if theme.ansi else theme.accent
    # Textual's stock widgets expect these two of a theme of the terminal's own colours.
    own = {"ansi-background": theme.background, "ansi-foreground": theme.foreground} if theme.ansi else {}
    return {
        **own,
        "muted": theme.muted,
        "frame": theme.border,
        "mask": theme.mask,
        "guess": theme.guess,
        "fresh": theme.fresh,
        "changed": theme.changed,
        "block-a": theme.block_a,
        "block-b": theme.block_b,
        "on-accent": on_accent,
        **{f"ramp-{step}": colour for step, colour in enumerate(theme.ramp)},
        "text-muted": theme.muted,
        "text-disabled": theme.muted,
        "border": theme.accent,
        "border-blurred": theme.border,
        "block-cursor-foreground": on_accent,
        "block-cursor-background": behind_cursor,
        "block-cursor-text-style": "bold reverse" if theme.ansi else "bold",
        "block-cursor-blurred-foreground": theme.foreground,
        "block-cursor-blurred-background": theme.fresh,
        "block-hover-background": theme.fresh,
        "input-cursor-foreground": on_accent,
        "input-cursor-background": behind_cursor,
        "input-cursor-text-style": "reverse" if theme.ansi else "none",
        "input-selection-background": "ansi_cyan" if theme.ansi else theme.fresh,
        "input-selection-foreground": theme.foreground,
        "scrollbar": theme.border,
        "scrollbar-hover": theme.muted,
        "scrollbar-active": theme.accent,
        "scrollbar-background": theme.background,
        "scrollbar-background-hover": theme.background,
        "scrollbar-background-active": theme.background,
        "scrollbar-corner-color": theme.background,
    }
