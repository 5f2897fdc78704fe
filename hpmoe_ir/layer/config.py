"""The sizes of one Mixture-of-Experts layer and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hpmoe_ir.dtypes import Dtype, DtypeError, check_dtype

MATRIX_BLOCK = 16
"""Edge of the smallest matrix block that the matrix core multiplies, in elements."""

MAX_ROWS = 2**31 - 1
"""Largest number of rows of a buffer: the device counts rows in signed 32-bit integers."""


class LayerError(ValueError):
    """Invalid sizes of a layer; the message names the field, the expected and the found value."""


@dataclass(frozen=True)
class LayerConfig:
    """Sizes of the expert part of one MoE layer, from dispatch to combine.

    Expert x lives on rank `x // local_experts`. A row has `hidden` elements.
    Raises LayerError for sizes that contradict each other.
    """

    name: str
    hidden: int
    """Elements per token, H."""
    width: int
    """Expert width, I: the inner dimension of an expert. Its first matmul has 2 I columns."""
    experts: int
    """Experts of all ranks, E."""
    top_k: int
    """Experts per token, K."""
    ranks: int = 1
    tokens: int = 4096
    """Largest number of tokens of a rank, T."""
    capacity: int | None = None
    """Largest number of rows that a rank can receive; None for the worst case of any routing."""
    dtype: Dtype = "bf16"
    """Element type of activations and weights."""
    source: str = ""
    """Human-readable origin of the sizes."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Human-readable facts of the source about parts outside the experts, such as the router."""

    def __post_init__(self) -> None:
        try:
            check_dtype(self.dtype)
        except DtypeError as e:
            raise LayerError(f"layer '{self.name}': dtype: {e}") from e
        for key in ("hidden", "width", "experts", "top_k", "ranks", "tokens"):
            self._check_positive(key, getattr(self, key))
        if self.capacity is not None:
            self._check_positive("capacity", self.capacity)
        if self.top_k > self.experts:
            self._fail("top_k", f"at most the {self.experts} experts", self.top_k)
        if self.experts % self.ranks:
            self._fail("experts", f"a multiple of the {self.ranks} ranks", self.experts)
        if self.max_received_rows > MAX_ROWS:
            self._fail(
                "tokens", f"at most {MAX_ROWS} rows received by a rank", self.max_received_rows
            )
        if self.receive_rows > self.max_received_rows:
            expected = f"at most the {self.max_received_rows} rows that a rank can receive"
            self._fail("capacity", expected, self.receive_rows)

    def _check_positive(self, key: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            self._fail(key, "a positive integer", value)

    def _fail(self, key: str, expected: str, found: object) -> None:
        raise LayerError(f"layer '{self.name}': {key}: expected {expected}, found {found!r}")

    @property
    def local_experts(self) -> int:
        """Experts per rank, L."""
        return self.experts // self.ranks

    @property
    def max_received_rows(self) -> int:
        """Rows that a rank receives in the worst case: all tokens of all ranks choose it."""
        return self.ranks * self.tokens * min(self.top_k, self.local_experts)

    @property
    def receive_rows(self) -> int:
        """Rows of the receive buffer of a rank, C: the capacity, or the worst case without one."""
        return self.max_received_rows if self.capacity is None else self.capacity

    @property
    def sent_rows(self) -> int:
        """Largest number of rows that a rank sends, T * K."""
        return self.tokens * self.top_k

    def with_sizes(
        self,
        *,
        ranks: int | None = None,
        tokens: int | None = None,
        top_k: int | None = None,
        hidden: int | None = None,
        width: int | None = None,
        experts: int | None = None,
        capacity: int | None = None,
        dtype: Dtype | None = None,
    ) -> LayerConfig:
        """Returns a copy with the given sizes in place of its own. Raises LayerError."""
        return replace(
            self,
            ranks=self.ranks if ranks is None else ranks,
            tokens=self.tokens if tokens is None else tokens,
            top_k=self.top_k if top_k is None else top_k,
            hidden=self.hidden if hidden is None else hidden,
            width=self.width if width is None else width,
            experts=self.experts if experts is None else experts,
            capacity=self.capacity if capacity is None else capacity,
            dtype=self.dtype if dtype is None else dtype,
        )

    def check_lowerable(self) -> None:
        """Raises LayerError if the matrix cores do not support the sizes or the element type."""
        for key in ("hidden", "width"):
            value = getattr(self, key)
            if value % MATRIX_BLOCK:
                self._fail(key, f"a multiple of {MATRIX_BLOCK}", value)
        if self.dtype not in ("bf16", "f16"):
            self._fail("dtype", "bf16 or f16 (the types of the matrix cores)", self.dtype)

    def summary(self) -> str:
        """Returns a human-readable line with all sizes."""
        rows = "" if self.capacity is None else f", capacity {self.capacity} rows"
        return (
            f"{self.name}: hidden {self.hidden}, expert width {self.width}, "
            f"top {self.top_k} of {self.experts} experts over {self.ranks} ranks, "
            f"{self.tokens} tokens a rank{rows}, {self.dtype}"
        )
