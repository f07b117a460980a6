"""Linear algebra, and dynamic programming."""

from __future__ import annotations

from fuzz.families.algorithms.pieces import Pieces
from fuzz.families.drafts import Dim

__all__ = ["Tables"]


class Tables(Pieces):
    """Writes solvers and tables into a draft."""

    def elimination(self) -> None:
        """Write a decomposition into triangles, in place."""
        n, t = self.n(17), self.float
        a = self.given(t, n, n).name
        inner = self.c.chance(0.5)
        self.write(
            f"""
for k in range({n.text}):
    for i in range(k + 1, {n.text}):
        {a}[i, k] = {a}[i, k] / (T.abs({a}[k, k]) + T.{t}(1))
        {"for j in range(k + 1, " + n.text + "):" if inner else ""}
            {f"{a}[i, j] = {a}[i, j] - {a}[i, k] * {a}[k, j]" if inner else ""}
""".replace("        \n", "").replace("            \n", "")
        )
        if not inner:
            self.write(f"""
    for i in range(k + 1, {n.text}):
        for j in range(k + 1, {n.text}):
            {a}[i, j] -= {a}[i, k] * {a}[k, j]
""")

    def triangular(self) -> None:
        """Solve for a triangle, forwards or backwards, for one or many right sides."""
        n, m, t, c = self.n(24), self.n(8), self.float, self.c
        a, b = self.given(t, n, n).name, self.given(t, n, m).name
        back = c.chance(0.5)
        row = f"{n.text} - 1 - i" if back else "i"
        before = f"range({n.text} - i, {n.text})" if back else "range(i)"
        if c.chance(0.5):
            self.write(f"""
for j in range({m.text}):
    for i in range({n.text}):
        for k in {before}:
            {self.plus(f"{b}[{row}, j]", f"{a}[{row}, k] * {b}[k, j]")}
        {b}[{row}, j] = {b}[{row}, j] / (T.abs({a}[{row}, {row}]) + T.{t}(1))
""")
            return
        self.write(f"""
for i in range({n.text}):
    for k in {before}:
        for j in range({m.text}):
            {self.plus(f"{b}[{row}, j]", f"{a}[{row}, k] * {b}[k, j]")}
    for j in range({m.text}):
        {b}[{row}, j] = {b}[{row}, j] / (T.abs({a}[{row}, {row}]) + T.{t}(1))
""")

    def cholesky(self) -> None:
        """Write a decomposition with roots on the diagonal."""
        n, t = self.n(17), self.float
        a, r = self.given(t, n, n).name, self.out(t, n, n).name
        self.write(f"""
for i in range({n.text}):
    for j in range(i + 1):
        s = {a}[i, j]
        for k in range(j):
            s = s - {r}[i, k] * {r}[j, k]
        if i == j:
            {r}[i, j] = T.sqrt(T.abs(s) + T.{t}(1))
        else:
            {r}[i, j] = s / {r}[j, j]
""")

    def gram_schmidt(self) -> None:
        """Make rows orthogonal, one after the other."""
        n, m, t = self.n(8), self.n(24), self.float
        a = self.given(t, n, m).name
        self.write(f"""
for i in range({n.text}):
    for j in range(i):
        s = T.{t}(0)
        for k in range({m.text}):
            s = s + {a}[i, k] * {a}[j, k]
        for k in range({m.text}):
            {a}[i, k] = {a}[i, k] - s * {a}[j, k]
    w = T.{t}(0)
    for k in range({m.text}):
        w += {a}[i, k] * {a}[i, k]
    for k in range({m.text}):
        {a}[i, k] = {a}[i, k] / T.sqrt(w + T.{t}(1))
""")

    def power_iteration(self) -> None:
        """Multiply a vector by a matrix again and again."""
        n, t, c = self.n(24), self.any, self.c
        a, x, y = self.given(t, n, n, kind="small").name, self.given(t, n).name, self.out(t, n).name
        steps = c.integer(1, 5)
        self.write(f"""
for t in range({steps}):
    for i in range({n.text}):
        {y}[i] = T.{t}(0)
        for j in range({n.text}):
            {self.plus(f"{y}[i]", f"{a}[i, j] * {x}[j]")}
    for i in range({n.text}):
        {x}[i] = {f"T.max({y}[i], T.{t}(0))" if c.chance(0.5) else f"{y}[i]"}
""")

    def covariance(self) -> None:
        """Subtract the means of columns, and multiply what is left by itself."""
        n, m, t = self.n(20), self.n(12), self.float
        a, mean, r = self.given(t, n, m).name, self.out(t, m).name, self.out(t, m, m).name
        self.write(f"""
for j in range({m.text}):
    {mean}[j] = T.{t}(0)
    for i in range({n.text}):
        {mean}[j] += {a}[i, j]
    {mean}[j] = {mean}[j] / T.Cast("{t}", {n.text})
for i in range({n.text}):
    for j in range({m.text}):
        {a}[i, j] = {a}[i, j] - {mean}[j]
for i in range({m.text}):
    for j in range(i, {m.text}):
        {r}[i, j] = T.{t}(0)
        for k in range({n.text}):
            {r}[i, j] += {a}[k, i] * {a}[k, j]
        {r}[j, i] = {r}[i, j]
""")

    def two_products(self) -> None:
        """Multiply by a matrix and by its transpose, in the same loops."""
        n, m, t = self.n(24), self.n(24), self.any
        a, p, q = self.given(t, n, m).name, self.given(t, m).name, self.given(t, n).name
        r, s = self.out(t, n).name, self.out(t, m).name
        self.write(f"""
for j in range({m.text}):
    {s}[j] = T.{t}(0)
for i in range({n.text}):
    {r}[i] = T.{t}(0)
    for j in range({m.text}):
        {self.plus(f"{s}[j]", f"{q}[i] * {a}[i, j]")}
        {self.plus(f"{r}[i]", f"{a}[i, j] * {p}[j]")}
""")

    def shortest_paths(self) -> None:
        """Find the lengths of shortest paths, in place."""
        n, t, c = self.n(17), self.any, self.c
        a = self.given(t, n, n).name
        via = f"{a}[i, k] + {a}[k, j]"
        step = f"{a}[i, j] = T.min({a}[i, j], {via})"
        if c.chance(0.4):
            step = f"{a}[i, j] = T.if_then_else({via} < {a}[i, j], {via}, {a}[i, j])"
        self.write(f"""
for k in range({n.text}):
    for i in range({n.text}):
        for j in range({n.text}):
            {step}
""")

    def edit_distance(self) -> None:
        """Fill the table of the distances of two texts."""
        n, m = self.n(24), self.n(24)
        a, b = self.given("uint8", n, kind="small").name, self.given("uint8", m, kind="small").name
        r = self.out(self.int, n + 1, m + 1).name
        t = self.int
        self.write(f"""
for i in range({n.text} + 1):
    {r}[i, 0] = T.Cast("{t}", i)
for j in range({m.text} + 1):
    {r}[0, j] = T.Cast("{t}", j)
for i in range(1, {n.text} + 1):
    for j in range(1, {m.text} + 1):
        c = T.if_then_else({a}[i - 1] == {b}[j - 1], T.{t}(0), T.{t}(1))
        w = T.min({r}[i - 1, j] + T.{t}(1), {r}[i, j - 1] + T.{t}(1))
        {r}[i, j] = T.min(w, {r}[i - 1, j - 1] + c)
""")

    def subsequence(self) -> None:
        """Fill the table of longest common parts, in two rows that take turns."""
        n, m, t = self.n(24), self.n(24), self.int
        a, b = self.given("int8", n, kind="small").name, self.given("int8", m, kind="small").name
        r = self.given(t, Dim(2, "2"), m + 1).name
        self.write(f"""
for j in range({m.text} + 1):
    {r}[0, j] = T.{t}(0)
for i in range({n.text}):
    {r}[(i + 1) % 2, 0] = T.{t}(0)
    for j in range({m.text}):
        if {a}[i] == {b}[j]:
            {r}[(i + 1) % 2, j + 1] = {r}[i % 2, j] + T.{t}(1)
        else:
            {r}[(i + 1) % 2, j + 1] = T.max({r}[i % 2, j + 1], {r}[(i + 1) % 2, j])
""")

    def knapsack(self) -> None:
        """Fill the table of the best values, downwards or upwards."""
        n, m, t, c = self.n(12), self.n(40), self.int, self.c
        w = self.given("int32", n, content=self.d.random().integers(1, 6, n.value)).name
        v, r = self.given(t, n, kind="small").name, self.given(t, m).name
        j = f"{m.text} - 1 - j" if c.chance(0.6) else "j"
        self.write(f"""
for i in range({n.text}):
    for j in range({m.text}):
        if {j} >= {w}[i]:
            {r}[{j}] = T.max({r}[{j}], {r}[{j} - {w}[i]] + {v}[i])
""")

    def integral_image(self) -> None:
        """Sum up all that is above and to the left."""
        n, m, t, c = self.n(33), self.n(33), self.any, self.c
        a, r = self.given(t, n, m).name, self.out(t, n + 1, m + 1).name
        self.write(f"""
for i in range({n.text} + 1):
    for j in range({m.text} + 1):
        if i == 0 or j == 0:
            {r}[i, j] = T.{t}(0)
        else:
            {r}[i, j] = {a}[i - 1, j - 1] + {r}[i - 1, j] + {r}[i, j - 1] - {r}[i - 1, j - 1]
""")
        if c.chance(0.5) and n.value > 3 and m.value > 3:
            box = self.out(t, n + -2, m + -2).name
            self.write(f"""
for i, j in T.grid({(n + -2).text}, {(m + -2).text}):
    {box}[i, j] = {r}[i + 3, j + 3] - {r}[i, j + 3] - {r}[i + 3, j] + {r}[i, j]
""")

    def pascal(self) -> None:
        """Fill a triangle of sums of two neighbours above."""
        n, t = self.n(30), self.int
        r = self.out(t, n, n).name
        self.write(f"""
for i in range({n.text}):
    for j in range({n.text}):
        if j == 0 or j == i:
            {r}[i, j] = T.{t}(1)
        else:
            {r}[i, j] = T.if_then_else(j < i, {r}[i - 1, j] + {r}[i - 1, j - 1], T.{t}(0))
""")

    def chain_product(self) -> None:
        """Fill a table by growing spans: the order of products of matrices."""
        n = self.n(14)
        t = self.c.pick(["int32", "int64", "float32"])
        p, r = self.given(t, n + 1, kind="small").name, self.given(t, n, n).name
        cost = f"{r}[i, k] + {r}[k + 1, i + span] + {p}[i] * {p}[k + 1] * {p}[i + span + 1]"
        self.write(f"""
for i in range({n.text}):
    {r}[i, i] = T.{t}(0)
for span in range(1, {n.text}):
    for i in range({n.text} - span):
        {r}[i, i + span] = T.max_value("{t}")
        for k in range(i, i + span):
            {r}[i, i + span] = T.min({r}[i, i + span], {cost})
""")

    def viterbi(self) -> None:
        """Find the best scores of states, step by step, and where they came from."""
        n, m, t = self.n(12), self.n(9), self.any
        e, a = self.given(t, n, m, kind="small").name, self.given(t, m, m, kind="small").name
        r, w = self.out(t, n, m).name, self.out("int32", n, m).name
        self.write(f"""
for j in range({m.text}):
    {r}[0, j] = {e}[0, j]
    {w}[0, j] = T.int32(-1)
for i in range(1, {n.text}):
    for j in range({m.text}):
        {r}[i, j] = T.min_value("{t}")
        for k in range({m.text}):
            if {r}[i - 1, k] + {a}[k, j] > {r}[i, j]:
                {r}[i, j] = {r}[i - 1, k] + {a}[k, j]
                {w}[i, j] = T.Cast("int32", k)
        {r}[i, j] = {r}[i, j] + {e}[i, j]
""")
