"""Reference lines and polynomials of OpenDRIVE, as functions of the arc length along a road."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt
from scipy.special import fresnel

from l5kit._types import BoolArray, Float64Array

Complex128Array: TypeAlias = npt.NDArray[np.complex128]

_LONGEST_M: Final = 1e5
_STEEPEST: Final = 1e6


def number_of(element: Element, name: str, default: float | None = None) -> float:
    """Return the value of an attribute that must be a finite number.

    Raises:
        ValueError: It is missing, and there is no default, or it is no finite number.
    """
    text = element.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(f"{element.tag} must have a finite number as {name}, got {text!r:.40}")
    return value


@dataclass(frozen=True, eq=False)
class Polynomials:
    """A piecewise cubic function of the distance from the start of each piece; 0 if there are no pieces.

    Attributes:
        starts_m: Start of each piece, ascending.
        coefficients: a, b, c, d of each piece, float64 (P, 4).
    """

    starts_m: Float64Array
    coefficients: Float64Array

    @classmethod
    def of(cls, elements: Sequence[Element], *, start: str, offset_m: float = 0.0) -> "Polynomials":
        """Return the function of some elements.

        Args:
            elements: Elements with attributes ``a`` to ``d``.
            start: Name of the attribute with the start of the piece.
            offset_m: Offset added to the start.
        """
        rows = [(offset_m + number_of(each, start), *(number_of(each, name) for name in "abcd")) for each in elements]
        table = np.array(sorted(rows, key=lambda row: row[0]), np.float64).reshape(-1, 5)
        return cls(table[:, 0], table[:, 1:])

    def at(self, arcs_m: Float64Array) -> Float64Array:
        """Return the values at some arc lengths, (S,)."""
        if not len(self.starts_m):
            return np.zeros(len(arcs_m))
        piece = np.clip(np.searchsorted(self.starts_m, arcs_m + 1e-9, side="right") - 1, 0, None)
        beyond_m = arcs_m - self.starts_m[piece]
        a, b, c, d = self.coefficients[piece].T
        values: Float64Array = a + beyond_m * (b + beyond_m * (c + beyond_m * d))
        return values

    @property
    def is_linear(self) -> bool:
        """Whether all pieces are linear."""
        return not self.coefficients[:, 2:].any()


@dataclass(frozen=True, eq=False)
class _Piece:
    """A geometry element: start, length, start pose, kind and parameters."""

    start_m: float
    length_m: float
    x: float
    y: float
    heading_rad: float
    kind: str
    values: tuple[float, ...]

    def at(self, arcs_m: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return points and headings of an arc or clothoid at some arc lengths from its start, (S, 2) and (S,)."""
        start, end = self.values
        rate = (end - start) / self.length_m
        headings = self.heading_rad + arcs_m * (start + 0.5 * rate * arcs_m)

        # Points are complex numbers: the integral of exp(i heading) along the piece. For an arc or a line it is
        # (exp(i turn) - 1) / (i turn) = exp(i turn / 2) sinc(turn / 2), times the length.
        if abs(rate) * self.length_m < 1e-9:
            turns = start * arcs_m
            points = arcs_m * np.exp(1j * (self.heading_rad + 0.5 * turns)) * np.sinc(0.5 * turns / np.pi)
        else:
            # The heading of a clothoid is quadratic in the distance from its apex, where the curvature is 0. So the
            # integrals are Fresnel integrals: C(x) + i S(x) is the integral of exp(i pi t^2 / 2).
            scale = np.sqrt(np.pi / abs(rate))
            apex_m = -start / rate
            apex_heading = self.heading_rad - 0.5 * start**2 / rate

            def from_apex(lengths_m: Float64Array) -> Complex128Array:
                sine, cosine = fresnel(lengths_m / scale)
                integral: Complex128Array = scale * (cosine + 1j * np.sign(rate) * sine)
                return integral

            points = np.exp(1j * apex_heading) * (from_apex(arcs_m - apex_m) - from_apex(np.array([-apex_m])))
        return np.stack([self.x + points.real, self.y + points.imag], axis=1), headings

    @property
    def step_m(self) -> float:
        """Maximum distance of points so that the polyline is within 3 mm of the curve; infinite for a line."""
        if self.kind == "poly":
            return 0.5
        curvature = max(map(abs, self.values))  # the sagitta of a chord s is s^2 / 8 times the curvature
        return float(np.sqrt(8 * 0.003 / curvature)) if curvature > 1e-9 else np.inf


@dataclass(frozen=True, eq=False)
class ReferenceLine:
    """The reference line of a road."""

    pieces: tuple[_Piece, ...]
    length_m: float

    @classmethod
    def of(cls, plan: Element) -> "ReferenceLine":
        """Return the line of a ``planView``.

        Raises:
            ValueError: A geometry element is invalid, or the road is too long.
        """
        pieces = sorted((_piece_of(element) for element in plan.findall("geometry")), key=lambda piece: piece.start_m)
        if not pieces:
            raise ValueError("planView has no geometry; a road needs one at least")
        length_m = pieces[-1].start_m + pieces[-1].length_m
        if not 0 < length_m <= _LONGEST_M:
            raise ValueError(f"a road must be above 0 and up to {_LONGEST_M:g} m long, got {length_m:g}")
        return cls(tuple(pieces), length_m)

    def at(self, arcs_m: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return points and headings at some arc lengths, (S, 2) and (S,)."""
        starts_m, is_polynomial, table = self._tables
        piece_of = np.clip(np.searchsorted(starts_m, arcs_m + 1e-9, side="right") - 1, 0, None)
        points_m, headings_rad = np.empty((len(arcs_m), 2)), np.empty(len(arcs_m))

        # Polynomials are evaluated all at once, as roads written by l5kit have many short ones. Each gives u and v of a
        # parameter p in the frame of its start, which are then transformed to the world.
        chosen = is_polynomial[piece_of]
        x, y, heading_rad, *values, scale = table[piece_of[chosen]].T
        parts = (arcs_m[chosen] - starts_m[piece_of[chosen]]) * scale
        (au, bu, cu, du), (av, bv, cv, dv) = values[:4], values[4:]
        u, v = au + parts * (bu + parts * (cu + parts * du)), av + parts * (bv + parts * (cv + parts * dv))
        cos, sin = np.cos(heading_rad), np.sin(heading_rad)
        points_m[chosen] = np.stack([x + cos * u - sin * v, y + sin * u + cos * v], axis=1)
        slopes = bu + parts * (2 * cu + parts * 3 * du), bv + parts * (2 * cv + parts * 3 * dv)
        headings_rad[chosen] = heading_rad + np.arctan2(slopes[1], slopes[0])
        for row in np.unique(piece_of[~chosen]).tolist():
            chosen = piece_of == row
            points_m[chosen], headings_rad[chosen] = self.pieces[row].at(arcs_m[chosen] - starts_m[row])
        return points_m, headings_rad

    @cached_property
    def _tables(self) -> tuple[Float64Array, BoolArray, Float64Array]:
        """Start of each piece, whether it is a polynomial, and its x, y, heading, coefficients and scale of p."""
        rows = [
            (piece.x, piece.y, piece.heading_rad, *(piece.values if piece.kind == "poly" else (0.0,) * 9))
            for piece in self.pieces
        ]
        starts_m = np.array([piece.start_m for piece in self.pieces])
        return starts_m, np.array([piece.kind == "poly" for piece in self.pieces], np.bool_), np.array(rows)

    def sample(
        self, start_m: float, end_m: float, others_m: Sequence[Float64Array], *, is_linear: bool
    ) -> Float64Array:
        """Return arc lengths from start to end that sample the road, more densely where it is curved.

        Args:
            start_m: First arc length.
            end_m: Last arc length.
            others_m: Arc lengths that must be included, where another function has a new piece.
            is_linear: Whether all functions relative to the line are linear between these.
        """
        arcs = [np.array([start_m, end_m]), *others_m]
        for piece in self.pieces:
            low_m, high_m = max(start_m, piece.start_m), min(end_m, piece.start_m + piece.length_m)
            if high_m > low_m:
                step_m = min(piece.step_m, np.inf if is_linear else 1.0)
                count = 1 if np.isinf(step_m) else int(np.ceil((high_m - low_m) / step_m))
                arcs.append(np.linspace(low_m, high_m, count + 1))
        joined = np.unique(np.concatenate(arcs).round(9))
        inside: Float64Array = joined[(joined >= start_m - 1e-9) & (joined <= end_m + 1e-9)]
        return inside[np.concatenate([[True], np.diff(inside) > 1e-4])] if len(inside) > 2 else inside


def _piece_of(element: Element) -> _Piece:
    start_m, length_m, x, y, heading = (number_of(element, name) for name in ("s", "length", "x", "y", "hdg"))
    if not 0 <= start_m <= _LONGEST_M or not 0 <= length_m <= _LONGEST_M:
        raise ValueError(
            f"geometry must have s and length from 0 to {_LONGEST_M:g} m, got {start_m:g} and {length_m:g}"
        )
    length_m = max(length_m, 1e-9)
    for child in element:
        if child.tag == "line":
            return _Piece(start_m, length_m, x, y, heading, "arc", (0.0, 0.0))
        if child.tag == "arc":
            curvature = number_of(child, "curvature")
            values: tuple[float, ...] = (curvature, curvature)
        elif child.tag == "spiral":
            values = (number_of(child, "curvStart"), number_of(child, "curvEnd"))
        elif child.tag == "poly3":
            values = (0.0, 1.0, 0.0, 0.0, *(number_of(child, name) for name in "abcd"), 1.0)
            return _Piece(start_m, length_m, x, y, heading, "poly", values)
        elif child.tag == "paramPoly3":
            names = [f"{letter}{axis}" for axis in "UV" for letter in "abcd"]
            is_normalized = child.get("pRange", "normalized") == "normalized"
            values = (*(number_of(child, name) for name in names), 1.0 / length_m if is_normalized else 1.0)
            return _Piece(start_m, length_m, x, y, heading, "poly", values)
        else:
            continue
        if max(map(abs, values)) > _STEEPEST or max(map(abs, values)) * length_m > _STEEPEST:
            raise ValueError(f"the curvature of a {child.tag} is too great: {max(map(abs, values)):g} 1/m")
        return _Piece(start_m, length_m, x, y, heading, "arc", values)
    raise ValueError(f"geometry at s = {start_m:g} has none of line, arc, spiral, poly3 and paramPoly3")
