-- Sparse matrix times dense vector: y[i] = sum over j of a[i, j] * x[j], for every i that holds an entry.
--
-- Reads   a (i, j, value)   the entries, each coordinate at most once
--         x (j, value)      the dense vector, every j once
-- Gives   i, value
-- Used by engine="duckdb" for A @ x, with a and x as temporary views.
SELECT a.i AS i, sum(a.value * x.value) AS value
FROM a
JOIN x ON a.j = x.j
GROUP BY a.i
