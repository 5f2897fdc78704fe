"""What one Mixture-of-Experts layer is, before any IR: its sizes and where they came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hpmoe_ir.dtypes import Dtype, DtypeError, check_dtype

MATRIX_BLOCK = 16
"""Elements of a row or column of the smallest block that the matrix core multiplies."""

MAX_ROWS = 2**31 - 1
"""Rows are counted in 32 bits on the device."""


class LayerError(ValueError):
    """Sizes that make no layer; the message names the field, what is expected, what was found."""


@dataclass(frozen=True)
class LayerConfig:
    """Sizes of the expert part of one MoE layer, from dispatch to combine.

    Expert x lives on rank `x // local_experts`. Rows are rows of `hidden` elements.
    Raises LayerError for sizes that contradict each other.
    """

    name: str
    hidden: int
    """Elements of a token, H."""
    width: int
    """Elements between the two matmuls of an expert, I; the first matmul makes 2 I."""
    experts: int
    """Experts over all ranks, E."""
    top_k: int
    """Experts of one token, K."""
    ranks: int = 1
    tokens: int = 4096
    """Most tokens that one rank brings, T."""
    capacity: int | None = None
    """Most rows that one rank receives; None: as many as can ever arrive."""
    dtype: Dtype = "bf16"
    """Element type of activations and weights."""
    source: str = ""
    """Where the sizes came from, for people."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What the source says beyond the expert part, for people."""

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
        if self.most_rows > MAX_ROWS:
            self._fail("tokens", f"at most {MAX_ROWS} rows to arrive at a rank", self.most_rows)
        if self.receive_rows > self.most_rows:
            expected = f"at most the {self.most_rows} rows that can arrive at a rank"
            self._fail("capacity", expected, self.receive_rows)

    def _check_positive(self, key: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            self._fail(key, "a positive integer", value)

    def _fail(self, key: str, expected: str, found: object) -> None:
        raise LayerError(f"layer '{self.name}': {key}: expected {expected}, found {found!r}")

    @property
    def local_experts(self) -> int:
        """Experts of one rank, L."""
        return self.experts // self.ranks

    @property
    def most_rows(self) -> int:
        """Rows that arrive at a rank at most, when every token of every rank picks it."""
        return self.ranks * self.tokens * min(self.top_k, self.local_experts)

    @property
    def receive_rows(self) -> int:
        """Rows that the receive buffer of a rank holds, C."""
        return self.most_rows if self.capacity is None else self.capacity

    @property
    def sent_rows(self) -> int:
        """Rows that a rank sends at most, T * K."""
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
        """The same layer with the given sizes instead of its own. Raises LayerError."""
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
        """Raises LayerError unless the matrix cores can compute this layer."""
        for key in ("hidden", "width"):
            value = getattr(self, key)
            if value % MATRIX_BLOCK:
                self._fail(key, f"a multiple of {MATRIX_BLOCK}", value)
        if self.dtype not in ("bf16", "f16"):
            self._fail("dtype", "bf16 or f16 (what the matrix cores multiply)", self.dtype)

    def summary(self) -> str:
        """One line for people."""
        rows = "" if self.capacity is None else f", capacity {self.capacity} rows"
        return (
            f"{self.name}: hidden {self.hidden}, expert width {self.width}, "
            f"top {self.top_k} of {self.experts} experts over {self.ranks} ranks, "
            f"{self.tokens} tokens a rank{rows}, {self.dtype}"
        )
