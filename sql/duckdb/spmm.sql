-- Sparse matrix times k dense vectors: y[i, c] = sum over j of a[i, j] * x[j, c], for every i that holds an entry.
--
-- The dense matrix is laid out wide, a column for each vector, so that an entry is joined once and not k times.
--
-- Reads   a (i, j, value)       the entries, each coordinate at most once
--         x (j, v0, v1, ...)    the dense matrix, a row for every j
-- Gives   i, v0, v1, ...
-- Used by engine="duckdb" for A @ X, with a and x as temporary views.
SELECT a.i AS i, sum(a.value * COLUMNS(x.* EXCLUDE (j)))
FROM a
JOIN x ON a.j = x.j
GROUP BY a.i
