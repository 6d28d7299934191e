"""Keys and values kept between forwards: one slot a position, written in place."""

from torch import Tensor


class BlockCache:
    """The exact block cache: what it holds never has to be computed again.

    Args:
        slots: zeros [layers, 2 (keys, values), kv_heads, capacity, head_dim].
    """

    def __init__(self, slots: Tensor) -> None:
        self.capacity = slots.shape[3]
        self.length = 0
        self._slots = slots

    def truncate(self, length: int) -> None:
        """Forget every slot from ``length`` on."""
        self.length = min(self.length, length)

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` positions; moves what is there only when it has to grow."""
        have = self._slots.shape[3]
        if slots > have:
            layers, two, heads, _, width = self._slots.shape
            grown = self._slots.new_zeros(layers, two, heads, max(slots, 2 * have), width)
            grown[:, :, :, :have] = self._slots
            self._slots = grown

    def copy(self, start: int, end: int) -> Tensor:
        """A copy of the slots ``start … end-1`` of all layers, for :meth:`paste`; empty where end ≤ start."""
        return self._slots[:, :, :, start : max(start, end)].clone()

    def paste(self, start: int, rows: Tensor) -> None:
        """Lay rows that :meth:`copy` took into the slots from ``start`` on."""
        self._slots[:, :, :, start : start + rows.shape[3]] = rows

    def put(self, layer: int, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's rows at ``start`` and give everything up to their end.

        Args:
            layer: index of the layer.
            start: first slot.
            keys: [kv_heads, rows, head_dim].
            values: the same shape.

        Returns:
            Keys and values of slots 0 … start+rows-1: two views [kv_heads, start + rows, head_dim].
        """
        end = start + keys.shape[1]
        slots = self._slots[layer]
        slots[0, :, start:end] = keys
        slots[1, :, start:end] = values
        return slots[0, :, :end], slots[1, :, :end]


class Window:
    """A cache as one forward sees it: the context, and behind it the forward's own keys and values.

    The own ones lie in the slots behind the context for as long as the forward runs. If they are to stay
    elsewhere or not at all, what was in those slots is put back at the end: a few rows are copied, never
    the whole context.

    Args:
        cache: the slots.
        context: how many of the first are seen.
        write_at: first slot in which the own ones stay, or ``None``.
        count: how many own ones there will be.
    """

    def __init__(self, cache: BlockCache, context: int, write_at: int | None, count: int) -> None:
        self.cache = cache
        self.context = context
        self.count = count
        self.write_at = write_at
        cache.reserve(max(context, write_at or 0) + count)
        self._lent = cache.copy(context, min(context + count, cache.length)) if write_at != context else None

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """One layer's own keys and values in; all that is seen out, as of :meth:`BlockCache.put`."""
        return self.cache.put(layer, self.context, keys, values)

    def close(self) -> None:
        """Leave the own keys and values where they stay, and everything else as it was."""
        if self._lent is not None:
            own = None if self.write_at is None else self.cache.copy(self.context, self.context + self.count)
            self.cache.paste(self.context, self._lent)
            if own is not None and self.write_at is not None:
                self.cache.paste(self.write_at, own)
        if self.write_at is not None:
            self.cache.length = max(self.cache.length, self.write_at + self.count)
