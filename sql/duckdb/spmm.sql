-- Sparse matrix times k dense vectors: y[i, c] = sum over j of a[i, j] * x[j, c], for every non-empty row i.
--
-- The dense matrix has one column per vector, so that each stored element is joined once instead of k times.
--
-- Reads     a (i, j, value)       the stored elements, without duplicates
--           x (j, v0, v1, ...)    the dense matrix, one row per j
-- Returns   i, v0, v1, ...
-- Used by engine="duckdb" for A @ X, with a and x as temporary views.
SELECT a.i AS i, sum(a.value * COLUMNS(x.* EXCLUDE (j)))
FROM a
JOIN x ON a.j = x.j
GROUP BY a.i
