-- Table macros for the Parquet files of stored matrices, in any DuckDB shell, without sparrow:
--
--     duckdb -init macros.sql
--     D create view web as from read_parquet(['web.sparrow/3f1c-a0.parquet', 'web.sparrow/9b77-c2.parquet']);
--     D from degree('web') order by degree desc limit 5;
--     D from spmv('web', 'x');
--     D from slice('web', i_from := 100, i_to := 200);
--
--   spmv(a, x)        i, value          sum over j of a[i, j] * x[j]
--   spmm(a, x)        i, v0, v1, ...    the same for each column of x after the first, under its name
--   spgemm(a, b)      i, j, value       sum over k of a[i, k] * b[k, j], where it is not 0
--   min_plus(a, b)    i, j, value       minimum over k of a[i, k] + b[k, j]: shortest paths of two edges
--   triangles(a)      triangles         triangles of an undirected graph, stored in both directions or with i < j
--   degree(a, dim)    i, degree         stored elements per index of dimension dim: 0 (the default) rows, 1 columns
--   slice(a, i_from, i_to, j_from, j_to)
--                     i, j, value       elements with i_from <= i < i_to and j_from <= j < j_to, at their coordinates
--                                       in a; every bound is optional
--
-- a, b a matrix: its columns are row, column and value, whatever their names, without duplicates. DuckDB does not multiply
--      booleans, and multiplies small integers in their type: use a view of "i, j, value::BIGINT as value". DuckDB orders
--      NaN above all numbers, so min_plus ignores it
-- x    a dense operand: its first column counts 0, 1, 2, ..., the others are values
-- Each is the quoted name of a table, a view or a Parquet file, or a list of these. Empty rows, which are 0, are left out.
-- Bounds skip row groups, since files are sorted.
--
-- Files: a folder keeps files of older versions until they are vacuumed, and 'web.sparrow/*.parquet' reads these too, so
-- that elements repeat after an edit. `sparrow info web.sparrow --json` and A.files() list the files of the current
-- version; with DuckDB's delta extension, delta_scan('web.sparrow') reads only them.
--
-- Used by people; sparrow itself runs the other files of this folder.

CREATE OR REPLACE MACRO spmv(a, x) AS TABLE
SELECT a.i AS i, sum(a.value * x.value) AS value
FROM query_table(a) AS a(i, j, value)
JOIN query_table(x) AS x(j, value) ON a.j = x.j
GROUP BY a.i;

CREATE OR REPLACE MACRO spmm(a, x) AS TABLE
SELECT a.i AS i, sum(a.value * COLUMNS(x.* EXCLUDE (j)))
FROM query_table(a) AS a(i, j, value)
JOIN query_table(x) AS x(j) ON a.j = x.j
GROUP BY a.i;

CREATE OR REPLACE MACRO spgemm(a, b) AS TABLE
SELECT a.i AS i, b.j AS j, sum(a.value * b.value) AS value
FROM query_table(a) AS a(i, k, value)
JOIN query_table(b) AS b(k, j, value) ON a.k = b.k
GROUP BY a.i, b.j
HAVING sum(a.value * b.value) <> 0;

CREATE OR REPLACE MACRO min_plus(a, b) AS TABLE
SELECT a.i AS i, b.j AS j, min(a.value + b.value) AS value
FROM query_table(a) AS a(i, k, value)
JOIN query_table(b) AS b(k, j, value) ON a.k = b.k
GROUP BY a.i, b.j;

CREATE OR REPLACE MACRO triangles(a) AS TABLE
SELECT count(*) AS triangles
FROM query_table(a) AS a(i, j, value)
JOIN query_table(a) AS b(i, j, value) ON a.j = b.i
SEMI JOIN query_table(a) AS c(i, j, value) ON c.i = a.i AND c.j = b.j
WHERE a.i < a.j AND b.i < b.j;

CREATE OR REPLACE MACRO degree(a, dim := 0) AS TABLE
SELECT CASE WHEN dim = 0 THEN a.i ELSE a.j END AS i, count(*) AS degree
FROM query_table(a) AS a(i, j, value)
GROUP BY 1;

CREATE OR REPLACE MACRO slice(a, i_from := 0, i_to := 9223372036854775807, j_from := 0, j_to := 9223372036854775807) AS TABLE
SELECT a.i AS i, a.j AS j, a.value AS value
FROM query_table(a) AS a(i, j, value)
WHERE a.i >= i_from AND a.i < i_to AND a.j >= j_from AND a.j < j_to;
