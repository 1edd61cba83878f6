-- Sparse matrix times dense vector: y[i] = sum over j of a[i, j] * x[j], for every non-empty row i.
--
-- Reads     a (i, j, value)   the stored elements, without duplicates
--           x (j, value)      the dense vector, one row per j
-- Returns   i, value
-- Used by engine="duckdb" for A @ x, with a and x as temporary views.
SELECT a.i AS i, sum(a.value * x.value) AS value
FROM a
JOIN x ON a.j = x.j
GROUP BY a.i
