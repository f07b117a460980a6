"""Pages of profiles: for each kernel a bar for its time, and one for its share of the roof."""

from __future__ import annotations

from loomir.display.page import badge, escape, note, page, table
from loomir.runtime.report.profile import Profile

__all__ = ["profile_page"]

_GOOD = 0.5
"""The fraction of the roof from which a kernel's bar is green."""


def profile_page(profile: Profile) -> str:
    """Render a profile: the slowest kernels first, and the time outside of kernels."""
    rows: list[tuple[str, ...]] = []
    rest = whole = profile.seconds
    for row in profile.kernels:
        rest -= row.seconds
        rates = (_rate(row.bytes, row.seconds), _rate(row.flops, row.seconds))
        color = "green" if row.roof is not None and row.roof >= _GOOD else "orange"
        roof = "" if row.roof is None else _bar(row.roof, color)
        name = f"<code>{escape(row.kernel)}</code>"
        share = _bar(row.share, "blue")
        rows.append((name, str(row.calls), _time(row.seconds), share, roof, *rates))
    outside = '<span class="loomir-quiet">outside of kernels</span>'
    share = _bar(rest / whole if whole else 0.0, "violet")
    rows.append((outside, "", _time(rest), share, "", "", ""))
    headings = ("kernel", "calls", "time", "share of the call", "share of the roof")
    machine = f"the roof: {profile.roof.bandwidth / 1e9:,.1f} GB/s, "
    machine += f"{profile.roof.flops / 1e9:,.1f} GFLOP/s"
    is_cached = any(row.roof is not None and row.roof > 1 for row in profile.kernels)
    return page(
        f"<b>{escape(profile.name)}</b> {badge(_time(whole))}",
        table((*headings, "GB/s", "GFLOP/s"), rows, right=(1, 2, 5, 6)),
        note(machine),
        note("above 100 %: the data came from caches") if is_cached else "",
        note("there were more calls than could be noted") if profile.truncated else "",
    )


def _bar(share: float, color: str) -> str:
    width = 100 * min(max(share, 0.0), 1.0)
    inner = f'<i style="width:{width:.1f}%;background:var(--loomir-{color})"></i>'
    return f'<span class="loomir-bar">{inner}</span>{share:.1%}'


def _time(seconds: float) -> str:
    if abs(seconds) >= 1:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if abs(seconds) >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _rate(count: int | None, seconds: float) -> str:
    return "" if count is None or not seconds else f"{count / seconds / 1e9:,.2f}"
