"""Simulations, transforms with doubling steps, and operations on rows."""

from __future__ import annotations

from fuzz.families.algorithms.pieces import Pieces
from fuzz.families.as_python import float_like
from fuzz.families.drafts import Dim

__all__ = ["Rows"]


class Rows(Pieces):
    """Writes simulations, transforms and passes over rows into a draft."""

    def heat(self) -> None:
        """Take steps in time, between two arrays or from one to the other and back."""
        n, m, t, c = self.n(20), self.n(20), self.float, self.c
        a, b = self.given(t, n, m).name, self.given(t, n, m).name
        steps = c.integer(1, 4)
        inside = f"for i in range(1, {n.text} - 1):", f"for j in range(1, {m.text} - 1):"
        new = f"T.{t}(0.25) * ({a}[i - 1, j] + {a}[i + 1, j] + {a}[i, j - 1] + {a}[i, j + 1])"
        self.write(f"""
for t in range({steps}):
    {inside[0]}
        {inside[1]}
            {b}[i, j] = {new}
    {inside[0]}
        {inside[1]}
            {a}[i, j] = {b}[i, j]{"" if c.chance(0.5) else f" + {a}[i, j]"}
""")

    def relaxation(self) -> None:
        """Replace elements by means of neighbours, in place: some are new, some are old."""
        n, m, t, c = self.n(20), self.n(20), self.float, self.c
        a = self.given(t, n, m).name
        test = "(i + j) % 2 == t % 2" if c.chance(0.5) else f"{a}[i, j] > T.{t}(-3)"
        self.write(f"""
for t in range({c.integer(1, 4)}):
    for i in range(1, {n.text} - 1):
        for j in range(1, {m.text} - 1):
            if {test}:
                w = {a}[i - 1, j] + {a}[i + 1, j] + {a}[i, j - 1] + {a}[i, j + 1]
                {a}[i, j] = w / T.{t}(4)
""")

    def life(self) -> None:
        """Count neighbours around a torus, and decide who lives."""
        n, m = self.n(16), self.n(16)
        t = self.c.pick(["uint8", "int32", "int8"])
        content = self.d.random().integers(0, 2, (n.value, m.value))
        a, r = self.given(t, n, m, content=content).name, self.out(t, n, m).name
        lives = f"s == T.{t}(3) or s == T.{t}(2) and {a}[i, j] == T.{t}(1)"
        y, x = f"(i + y + {n.text} - 1) % {n.text}", f"(j + x + {m.text} - 1) % {m.text}"
        self.write(f"""
for i in range({n.text}):
    for j in range({m.text}):
        s = T.{t}(0)
        for y in range(3):
            for x in range(3):
                if y != 1 or x != 1:
                    s = s + {a}[{y}, {x}]
        {r}[i, j] = T.if_then_else({lives}, T.{t}(1), T.{t}(0))
""")

    def mandelbrot(self) -> None:
        """Iterate until a number leaves a circle."""
        n, m, t = self.n(12), self.n(12), self.c.pick(["float32", "float64"])
        r = self.out("int32", n, m).name
        self.write(f"""
for i in range({n.text}):
    for j in range({m.text}):
        x = T.{t}(0)
        y = T.{t}(0)
        k = T.int32(0)
        while k < 20 and x * x + y * y < T.{t}(4):
            z = x * x - y * y + T.Cast("{t}", j) * T.{t}(0.125) - T.{t}(1.5)
            y = T.{t}(2) * x * y + T.Cast("{t}", i) * T.{t}(0.125) - T.{t}(1)
            x = z
            k = k + 1
        {r}[i, j] = k
""")

    def recurrent(self) -> None:
        """Take a state along a sequence: each step mixes all of it."""
        n, m, t = self.n(10), self.n(12), self.float
        x, u, h = self.given(t, n, m).name, self.given(t, m, m, kind="small").name, None
        h, y = self.given(t, m).name, self.out(t, n, m).name
        self.write(f"""
for s in range({n.text}):
    for j in range({m.text}):
        {y}[s, j] = {x}[s, j]
        for k in range({m.text}):
            {y}[s, j] += {h}[k] * {u}[k, j] * T.{t}(0.125)
    for j in range({m.text}):
        {h}[j] = T.max(T.min({y}[s, j], T.{t}(1)), T.{t}(-1))
""")

    def filters(self) -> None:
        """Filter signals, by what came out before."""
        n, m, t, c = self.n(5), self.n(60), self.float, self.c
        x, y = self.given(t, n, m).name, self.out(t, n, m).name
        if c.chance(0.5):
            self.write(f"""
for i in range({n.text}):
    p = T.{t}(0)
    q = T.{t}(0)
    for k in range({m.text}):
        w = {x}[i, k] * T.{t}(0.5) + p * T.{t}(0.25) - q * T.{t}(0.125)
        q = p
        p = w
        {y}[i, k] = w
""")
            return
        self.write(f"""
for k in range({m.text}):
    for i in range({n.text}):
        {y}[i, k] = {x}[i, k]
        if k >= 1:
            {y}[i, k] += {y}[i, k - 1] * T.{t}(0.5)
        if k >= 2:
            {y}[i, k] -= {y}[i, k - 2] * T.{t}(0.25)
""")

    def sieve(self) -> None:
        """Cross out multiples."""
        n = self.n(200)
        t = self.c.pick(["bool", "uint8", "int32"])
        yes, no = ("T.bool(True)", "T.bool(False)") if t == "bool" else (f"T.{t}(1)", f"T.{t}(0)")
        r = self.out(t, n).name
        asked = f"{r}[i]" if t == "bool" else f"{r}[i] != T.{t}(0)"
        self.write(f"""
for i in range({n.text}):
    {r}[i] = {yes}
for i in range(2, {n.text}):
    if {asked}:
        for k in range(({n.text} - 1) // i - 1):
            {r}[(k + 2) * i] = {no}
""")

    def butterflies(self) -> None:
        """Add and subtract pairs at doubling distances: a Walsh transform, in place."""
        log, t = self.c.integer(1, 7), self.any
        n = Dim(1 << log, str(1 << log))
        a = self.given(t, n).name
        self.write(f"""
for s in range({log}):
    for k in range({n.value // 2}):
        p: T.let = k // (1 << s) * (2 << s) + k % (1 << s)
        u = {a}[p]
        v = {a}[p + (1 << s)]
        {a}[p] = u + v
        {a}[p + (1 << s)] = u - v
""")

    def bitonic(self) -> None:
        """Sort by a network of exchanges."""
        log, t = self.c.integer(1, 5), self.any
        n = 1 << log
        a = self.given(t, Dim(n, str(n))).name
        self.write(f"""
for k in range(1, {log + 1}):
    for s in range(k):
        for i in range({n}):
            j: T.let = i ^ (1 << (k - 1 - s))
            if j > i:
                if (i >> k) % 2 == 0 and {a}[i] > {a}[j] or (i >> k) % 2 == 1 and {a}[i] < {a}[j]:
                    {a}[i], {a}[j] = {a}[j], {a}[i]
""")

    def halving(self) -> None:
        """Sum up by halves, in place: a reduction as threads have it."""
        log, t = self.c.integer(0, 7), self.any
        n = 1 << log
        a = self.given(t, Dim(n, str(n))).name
        way = self.c.pick(
            [f"{a}[i] + {a}[i + ({n} >> (s + 1))]", f"T.max({a}[i], {a}[i + ({n} >> (s + 1))])"]
        )
        self.write(f"""
for s in range({log}):
    for i in range({n} >> (s + 1)):
        {a}[i] = {way}
""")

    def tree(self) -> None:
        """Sum up elements at doubling distances: a scan as threads have it."""
        log, t = self.c.integer(1, 7), self.any
        n = self.n(1 << log)
        a, b = self.given(t, n).name, self.out(t, n).name
        self.write(f"""
for s in range({log}):
    for i in range({n.text}):
        {b}[i] = T.if_then_else(i >= (1 << s), {a}[i] + {a}[i - (1 << s)], {a}[i])
    for i in range({n.text}):
        {a}[i] = {b}[i]
""")

    def softmax_in_place(self) -> None:
        """Divide rows by what they sum up to, in place, after taking the greatest away."""
        n, m, t = self.n(12), self.n(60), self.any
        a = self.given(t, n, m, kind="small").name
        by = f"({self.any_abs('s', t)} + T.{t}(1))"
        divided = f"{a}[i, k] / {by}" if float_like(t) else f"T.div({a}[i, k], {by})"
        self.write(f"""
for i in range({n.text}):
    w = {a}[i, 0]
    for k in range({m.text}):
        w = T.max(w, {a}[i, k])
    s = T.{t}(0)
    for k in range({m.text}):
        {a}[i, k] = {a}[i, k] - w
        s = s + {a}[i, k]
    for k in range({m.text}):
        {a}[i, k] = {divided}
""")

    def any_abs(self, text: str, dtype: str) -> str:
        """Write a magnitude below the greatest one."""
        if float_like(dtype):
            return f"T.abs({text})"
        return f"({text} & T.{dtype}(15))"

    def rows_in_place(self) -> None:
        """Change rows by one element or one row of the array itself."""
        n, m, t, c = self.n(20), self.n(40), self.any, self.c
        a = self.given(t, n, m).name
        one = c.pick(
            [
                f"{a}[i, 0]",
                f"{a}[0, k]",
                f"{a}[i, {m.text} - 1]",
                f"{a}[{n.text} - 1, k]",
                f"{a}[i, k // 2]",
                f"{a}[i // 2, k]",
            ]
        )
        order = c.pick([("i", n, "k", m), ("k", m, "i", n)])
        self.write(f"""
for {order[0]} in range({order[1].text}):
    for {order[2]} in range({order[3].text}):
        {a}[i, k] = {a}[i, k] {c.pick("+-*")} {one}
""")

    def online_softmax(self) -> None:
        """Keep the greatest and a sum that is corrected by it, in one pass."""
        n, m, t = self.n(12), self.n(60), self.c.pick(["float32", "float64"])
        a, r, w = self.given(t, n, m).name, self.out(t, n).name, self.out(t, n).name
        self.write(f"""
for i in range({n.text}):
    g = T.min_value("{t}")
    s = T.{t}(0)
    for k in range({m.text}):
        x = {a}[i, k]
        if x > g:
            s = s * T.{t}(0.5) + T.{t}(1)
            g = x
        else:
            s = s + T.{t}(0.25)
    {r}[i] = s
    {w}[i] = g
""")

    def quantise(self) -> None:
        """Scale rows by their greatest magnitude, and round to bytes."""
        n, m, t = self.n(12), self.n(70), self.c.pick(["float32", "float64", "float16"])
        a, q, s = self.given(t, n, m).name, self.out("int8", n, m).name, self.out(t, n).name
        self.write(f"""
for i in range({n.text}):
    g = T.{t}(0)
    for k in range({m.text}):
        g = T.max(g, T.abs({a}[i, k]))
    {s}[i] = g / T.{t}(127)
    for k in range({m.text}):
        if g > T.{t}(0):
            {q}[i, k] = T.Cast("int8", T.round({a}[i, k] / {s}[i]))
        else:
            {q}[i, k] = T.int8(0)
""")

    def thresholds(self) -> None:
        """Count, sum up and bound what is above a threshold, all in one loop."""
        n, m, t = self.n(12), self.n(90), self.any
        a, lim = self.given(t, n, m, kind="small").name, self.given(t, n, kind="small").name
        count, total, top = self.out("int32", n).name, self.out(t, n).name, self.out(t, n).name
        self.write(f"""
for i in range({n.text}):
    {count}[i] = 0
    {total}[i] = T.{t}(0)
    {top}[i] = T.min_value("{t}")
    for k in range({m.text}):
        if {a}[i, k] >= {lim}[i]:
            {count}[i] = {count}[i] + 1
            {self.plus(f"{total}[i]", f"{a}[i, k]")}
        {top}[i] = T.max({top}[i], {a}[i, k])
""")

    def stacked_sums(self) -> None:
        """Sum up along one axis, and the sums along another, in one nest."""
        n, m, k, t = self.n(9), self.n(12), self.n(12), self.any
        a, r, s = self.given(t, n, m, k).name, self.out(t, n, m).name, self.out(t, n).name
        self.write(f"""
for i in range({n.text}):
    {s}[i] = T.{t}(0)
    for j in range({m.text}):
        {r}[i, j] = T.{t}(0)
        for l in range({k.text}):
            {self.plus(f"{r}[i, j]", f"{a}[i, j, l]")}
        {self.plus(f"{s}[i]", f"{r}[i, j]")}
""")

    def scaled_sums(self) -> None:
        """Sum up products by blocks, each with a scale of its own, as quantised layers do."""
        n, m, t, c = self.n(9), self.n(9), self.c.pick(["float32", "float64"]), self.c
        size, count = c.pick([4, 8, 16, 32]), c.integer(1, 4)
        k = Dim(size * count, str(size * count))
        byte = c.pick(["int8", "uint8"])
        x, w = self.given(byte, n, k).name, self.given("int8", m, k).name
        sx = self.given(t, n, Dim(count, str(count)), kind="small").name
        r = self.out(t, n, m).name
        self.write(f"""
for i in range({n.text}):
    for j in range({m.text}):
        {r}[i, j] = T.{t}(0)
        for b in range({count}):
            s = T.int32(0)
            for l in range({size}):
                p = T.Cast("int32", {x}[i, b * {size} + l])
                s = s + p * T.Cast("int32", {w}[j, b * {size} + l])
            {r}[i, j] = {r}[i, j] + T.Cast("{t}", s) * {sx}[i, b]
""")

    def packed_bits(self) -> None:
        """Take numbers of four bits out of bytes, or put them in."""
        n, t, c = self.n(90), self.c.pick(["float32", "int32", "int8"]), self.c
        if c.chance(0.5):
            a, r = self.given("uint8", n).name, self.out(t, n * 2).name
            self.write(f"""
for i in range({n.text}):
    {r}[i * 2] = T.Cast("{t}", {a}[i] & T.uint8(15)){f" - T.{t}(8)" if c.chance(0.5) else ""}
    {r}[i * 2 + 1] = T.Cast("{t}", {a}[i] >> T.uint8(4))
""")
            return
        a, r = self.given("uint8", n * 2).name, self.out("uint8", n).name
        self.write(f"""
for i in range({n.text}):
    {r}[i] = ({a}[2 * i] & T.uint8(15)) | ({a}[2 * i + 1] << T.uint8(4))
""")

    def horner(self) -> None:
        """Evaluate polynomials."""
        n, m, t, c = self.n(60), self.n(9), self.any, self.c
        x, a, r = self.given(t, n).name, self.given(t, m).name, self.out(t, n).name
        if c.chance(0.5):
            self.write(f"""
for i in range({n.text}):
    {r}[i] = T.{t}(0)
    for k in range({m.text}):
        {r}[i] = {r}[i] * {x}[i] + {a}[k]
""")
            return
        self.write(f"""
for i in range({n.text}):
    p = T.{t}(1)
    s = T.{t}(0)
    for k in range({m.text}):
        s = s + {a}[k] * p
        p = p * {x}[i]
    {r}[i] = s
""")

    def hashes(self) -> None:
        """Mix bytes into a number, one after the other, or random numbers from a seed."""
        n, m, c = self.n(12), self.n(40), self.c
        t = c.pick(["uint32", "uint64", "int32", "uint16"])
        a, r = self.given("uint8", n, m).name, self.out(t, n).name
        mix = c.pick(
            [
                f'(h ^ T.Cast("{t}", {a}[i, k])) * T.{t}(16777 + 2)',
                f'h * T.{t}(31) + T.Cast("{t}", {a}[i, k])',
                f'(h << T.{t}(5)) ^ (h >> T.{t}(3)) ^ T.Cast("{t}", {a}[i, k])',
            ]
        )
        self.write(f"""
for i in range({n.text}):
    h = T.{t}(5381)
    for k in range({m.text}):
        h = {mix}
    {r}[i] = h
""")

    def clusters(self) -> None:
        """Find the nearest centre of each point, and sum up points by centres."""
        n, m, k = self.n(20), self.n(6), self.n(7)
        t = self.c.pick(["float32", "float64", "int32"])
        x, w = self.given(t, n, m, kind="small").name, self.given(t, k, m, kind="small").name
        r, s, q = self.out("int32", n).name, self.out(t, k, m).name, self.out("int32", k).name
        self.write(f"""
for j in range({k.text}):
    {q}[j] = 0
    for l in range({m.text}):
        {s}[j, l] = T.{t}(0)
for i in range({n.text}):
    g = T.max_value("{t}")
    p = T.int32(0)
    for j in range({k.text}):
        e = T.{t}(0)
        for l in range({m.text}):
            e = e + ({x}[i, l] - {w}[j, l]) * ({x}[i, l] - {w}[j, l])
        if e < g:
            g = e
            p = T.Cast("int32", j)
    {r}[i] = p
    {q}[p] = {q}[p] + 1
    for l in range({m.text}):
        {s}[p, l] += {x}[i, l]
""")

    def pairwise(self) -> None:
        """Compute all distances, each pair once."""
        n, m, t = self.n(16), self.n(20), self.any
        a, r = self.given(t, n, m).name, self.out(t, n, n).name
        way = self.c.pick(["({0} - {1}) * ({0} - {1})", "T.max({0}, {1}) - T.min({0}, {1})"])
        self.write(f"""
for i in range({n.text}):
    for j in range({"i + 1" if self.c.chance(0.6) else n.text}):
        s = T.{t}(0)
        for k in range({m.text}):
            s = s + {way.format(f"{a}[i, k]", f"{a}[j, k]")}
        {r}[i, j] = s
        {r}[j, i] = s
""")

    def transposed_in_place(self) -> None:
        """Exchange what is above the diagonal for what is below."""
        n, t, c = self.n(40), self.any, self.c
        a = self.given(t, n, n).name
        begin = f"for j in range(i{' + 1' if c.chance(0.7) else ''}, {n.text}):"
        if c.chance(0.5):
            self.write(f"""
for i in range({n.text}):
    {begin}
        {a}[i, j], {a}[j, i] = {a}[j, i], {a}[i, j]
""")
            return
        self.write(f"""
for i in range({n.text}):
    {begin}
        w = {a}[i, j]
        {a}[i, j] = {a}[j, i]
        {a}[j, i] = w
""")

    def upsampled(self) -> None:
        """Write each element to four places, and means between neighbours."""
        n, m, t, c = self.n(16), self.n(16), self.any, self.c
        a, r = self.given(t, n, m).name, self.out(t, n * 2, m * 2).name
        if c.chance(0.5):
            self.write(f"""
for i, j in T.grid({n.text}, {m.text}):
    for y, x in T.grid(2, 2):
        {r}[i * 2 + y, j * 2 + x] = {a}[i, j]
""")
            return
        self.write(f"""
for i in range({(n * 2).text}):
    for j in range({(m * 2).text}):
        p: T.let = T.min(i // 2 + i % 2, {n.text} - 1)
        q: T.let = T.min(j // 2 + j % 2, {m.text} - 1)
        {r}[i, j] = {a}[i // 2, j // 2] + {a}[p, q]
""")
